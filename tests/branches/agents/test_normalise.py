"""What a provider sends, as the crystal contract has it (CRYSTAL-6)."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.crystal import CrystalError, CrystalResponse, ToolCall, Usage
from branches.agents.normalise import http_error, openai_response


def completion(message: Any, finish_reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish_reason}], **more}


def call(**fields: Any) -> dict[str, Any]:
    return {"id": "call_a", "type": "function", "function": {"name": "echo", "arguments": '{"text": "hi"}'}, **fields}


def test_text_and_usage() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    raw = completion({"role": "assistant", "content": "hello", "tool_calls": []}, usage=usage, model="m", id="x")
    assert openai_response(raw) == CrystalResponse(content="hello", usage=Usage(10, 5, 4), finish="stop")


def test_tool_calls_keep_their_ids_and_the_text_of_their_arguments() -> None:
    raw = completion({"content": None, "tool_calls": [call(), call(id="call_b")]}, "tool_calls")
    assert openai_response(raw).content is None
    assert openai_response(raw).tool_calls == (
        ToolCall("call_a", "echo", '{"text": "hi"}'),
        ToolCall("call_b", "echo", '{"text": "hi"}'),
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"cut off', '{"cut off'), ("not JSON", "not JSON"), ("", "{}"), (None, "{}"), ({"a": [1]}, '{"a":[1]}')],
)
def test_arguments_are_text_whatever_they_are(arguments: Any, text: str) -> None:
    raw = completion({"tool_calls": [call(function={"name": "echo", "arguments": arguments})]})
    assert openai_response(raw).tool_calls[0].arguments == text


def test_a_call_without_an_id_is_given_one_that_no_other_has() -> None:
    raw = completion({"tool_calls": [call(id=None), call(id="call_1"), call(id="")]})
    assert [each.id for each in openai_response(raw).tool_calls] == ["call_2", "call_1", "call_3"]


@pytest.mark.parametrize("function", [None, {}, {"name": None}, {"name": ""}, "echo"])
def test_a_call_of_nothing_is_invalid(function: Any) -> None:
    with pytest.raises(CrystalError, match="tool call 1 of the provider's response names no function") as caught:
        openai_response(completion({"tool_calls": [call(function=function)]}))
    assert caught.value.code == "invalid_response"


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": "9"}, {"prompt_tokens": True}]
)
def test_usage_that_is_not_said_is_nothing(usage: Any) -> None:
    assert openai_response(completion({"content": "hello"}, usage=usage)).usage == Usage()
    assert openai_response(completion({"content": "hello"})).usage == Usage()


def test_cached_tokens_may_stand_where_another_server_puts_them() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}
    assert openai_response(completion({"content": "hello"}, usage=usage)).usage.cached == 8


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "he"}, {"type": "image_url"}, {"type": "text", "text": "llo"}]
    assert openai_response(completion({"content": parts})).content == "hello"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking(field: str) -> None:
    response = openai_response(completion({"content": "4", field: "two and two"}))
    assert (response.content, response.thinking) == ("4", "two and two")


@pytest.mark.parametrize("content", [None, "half a sent"])
def test_a_refusal_is_a_failure_that_says_so(content: str | None) -> None:
    with pytest.raises(CrystalError, match="the model declined: I cannot help with that") as caught:
        openai_response(completion({"content": content, "refusal": "I cannot help with that"}))
    assert caught.value.code == "refused"


@pytest.mark.parametrize("content", [None, "half a sent"])
def test_what_a_content_filter_stopped_is_refused(content: str | None) -> None:
    with pytest.raises(CrystalError, match="content filter") as caught:
        openai_response(completion({"content": content}, "content_filter"))
    assert caught.value.code == "refused"


@pytest.mark.parametrize("word", ["length", "model_length", "max_tokens"])
def test_an_answer_that_was_cut_off_stands_and_says_so_unless_it_says_nothing(word: str) -> None:
    cut = openai_response(completion({"content": "half a sent"}, word))
    assert (cut.content, cut.finish) == ("half a sent", "length")
    cut = openai_response(completion({"tool_calls": [call()]}, word))
    assert (len(cut.tool_calls), cut.finish) == (1, "length")
    with pytest.raises(CrystalError, match="cut off before it said anything") as caught:
        openai_response(completion({"content": "", "reasoning": "well"}, word))
    assert caught.value.code == "invalid_response"


@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "eos_token", None])
def test_whatever_a_server_calls_it_an_answer_that_is_whole_has_stopped_or_waits_for_its_calls(word: Any) -> None:
    assert openai_response(completion({"content": "hello"}, word)).finish == "stop"
    assert openai_response(completion({"content": "hello", "tool_calls": [call()]}, word)).finish == "tool_calls"


def test_an_error_behind_half_an_answer_is_a_failure() -> None:
    raw = completion({"content": "half a sent"}, "error")
    raw["choices"][0]["error"] = {"code": 502, "message": "upstream is gone"}
    with pytest.raises(CrystalError, match="upstream is gone") as caught:
        openai_response(raw)
    assert (caught.value.code, caught.value.status) == ("unavailable", 502)


@pytest.mark.parametrize("raw", [{}, {"choices": []}, {"choices": None}, {"choices": [{}]}, {"choices": ["x"]}])
def test_a_response_without_a_message_is_invalid(raw: dict[str, Any]) -> None:
    with pytest.raises(CrystalError, match="no message in `choices`"):
        openai_response(raw)


def test_an_empty_message_is_left_to_the_contract() -> None:
    assert openai_response(completion({"content": None})) == CrystalResponse(finish="stop")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        ({"message": "slow down", "code": 429}, "rate_limited", 429),
        ({"message": "slow down", "code": "429"}, "rate_limited", 429),
        ({"message": "overloaded", "code": 529}, "unavailable", 529),
        ({"message": "odd", "code": "server_error"}, "unavailable", None),
        ({}, "unavailable", None),
    ],
)
def test_an_error_in_the_place_of_an_answer_is_one(error: dict[str, Any], code: str, status: int | None) -> None:
    for beside in ({}, {"choices": []}, completion({"content": None}), completion({"content": "hello"})):
        with pytest.raises(CrystalError) as caught:
            openai_response({**beside, "error": error})
        assert (caught.value.code, caught.value.status) == (code, status)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "bad_request"),
        (401, "unauthorized"),
        (403, "unauthorized"),
        (404, "not_found"),
        (422, "bad_request"),
        (429, "rate_limited"),
        (500, "unavailable"),
        (503, "unavailable"),
    ],
)
def test_a_status_has_a_code(status: int, code: str) -> None:
    error = http_error(status, "why")
    assert (error.code, error.status, str(error), error.retry_after_s) == (code, status, "why", None)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("", None),
        ("٣", None),
        ("9" * 400, None),
    ],
)
def test_a_provider_says_how_long_to_wait(header: str, seconds: float | None) -> None:
    assert http_error(429, "slow down", retry_after=header, now=10.0).retry_after_s == seconds


PLACES = [
    ("choices",),
    ("choices", 0),
    ("choices", 0, "message"),
    ("choices", 0, "finish_reason"),
    *(("choices", 0, "message", field) for field in ("content", "refusal", "reasoning", "tool_calls")),
    ("choices", 0, "message", "tool_calls", 0),
    *(("choices", 0, "message", "tool_calls", 0, field) for field in ("id", "function")),
    *(("choices", 0, "message", "tool_calls", 0, "function", field) for field in ("name", "arguments")),
    ("usage",),
    ("usage", "prompt_tokens_details"),
    ("error",),
]
ODD = st.sampled_from([None, True, -1, 1.5, "", "x", [], [None], ["x"], {}, {"x": 1}, {"message": 3}])


@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), max_size=4))
def test_whatever_comes_is_a_response_or_a_failure_of_the_crystal(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    raw = completion({"content": "hello", "tool_calls": [call()]}, usage={"prompt_tokens": 1})
    for place, value in changes:
        node: Any = raw
        with suppress(TypeError, KeyError, IndexError):
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = deepcopy(value)
    try:
        response = openai_response(raw)
    except CrystalError:
        return
    assert all(isinstance(each.arguments, str) and each.id for each in response.tool_calls)
    assert all(isinstance(text, str | None) for text in (response.content, response.thinking))
