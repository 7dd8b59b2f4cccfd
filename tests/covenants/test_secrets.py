"""Secrets of a configuration: found when they stand in clear, kept where they are used, shown nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.secret import Secret
from covenants.leaks import find_secrets, looks_random, names_a_secret, redact
from tests.covenants.configs import DiscordOptions, FsOptions, ModelOptions, configured, edited, problems

SHAPES = [
    "sk-ant-api03-AAAAbbbbCCCCdddd1111",
    "sk-proj-AAAAbbbbCCCCdddd1111",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "xoxb-123456789012-abcdefghij",
    "xapp-1-A0123456789-1234567890123-abcdef",
    "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWsAAAA",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "postgres://me:hunter2@db/x",
]


@pytest.mark.parametrize("secret", SHAPES)
def test_a_well_known_shape_is_found_wherever_it_stands(secret: str) -> None:
    for place in ("hearth", "console", "./workspace"):
        found = [problem for problem in problems(edited({place: f"'{secret}'"})) if problem.code == "E401"]
        assert len(found) == 1
        assert secret not in str(found[0])
    (commented,) = problems(edited({"hearth": f"hearth # {secret}"}))
    assert (commented.code, commented.line, commented.column) == ("E401", 1, 17)


@pytest.mark.parametrize(
    "text",
    [
        "sk-short",
        "task-force-one-two-three-four-five",
        "nats://host:4222",
        "nats://${USER}:${PASSWORD}@host:4222",
        "https://example.org/a:b@c",
        "AIza",
        "the secret of the keeper",
    ],
)
def test_what_only_resembles_one_is_left_alone(text: str) -> None:
    assert list(find_secrets(text)) == []


@settings(deadline=None)
@given(st.sampled_from(SHAPES), st.text(max_size=10), st.text(max_size=10))
def test_messages_are_cleaned(secret: str, before: str, after: str) -> None:
    assert secret not in redact(f"{before} {secret} {after}")


@pytest.mark.parametrize("option", ["token", "bot_token", "apiKey", "api_key", "API_KEY", "password", "client_secret"])
def test_names_that_promise_a_secret(option: str) -> None:
    assert names_a_secret(option)


@pytest.mark.parametrize(
    "option", ["max_tokens", "tokens", "key", "primary_key", "keyboard", "secretary", "token_file"]
)
def test_names_that_do_not(option: str) -> None:
    assert not names_a_secret(option)


def test_a_name_of_the_leafs_own_variable_promises_one() -> None:
    assert names_a_secret("hook", ("SLACK_HOOK",))
    assert not names_a_secret("hook", ("SLACK_TOKEN",))


def test_long_irregular_values_count_under_names_that_may_hold_a_secret() -> None:
    assert looks_random("key", "q9Zt7Lx2Vb4Nw8Rk1Ys6")
    assert not looks_random("key", "workspace-of-the-keeper")
    assert not looks_random("model", "q9Zt7Lx2Vb4Nw8Rk1Ys6")
    assert not looks_random("credentials", "/etc/nats/coven-prod-2026.creds")


def test_a_referenced_secret_stays_a_reference() -> None:
    text = edited({"rehearsal": "anthropic\n    options: {api_key: '${MY_KEY}', model: '${MODEL}'}"})
    environ = {"MY_KEY": "canary-1", "MODEL": "small"}
    config = configured(text, environ)
    options = config.branches["agents"].leaves["anthropic"].options
    assert isinstance(options, ModelOptions)
    assert options.api_key is not None
    assert options.api_key.reveal() == "canary-1"
    assert options.model == "small"
    assert "canary-1" not in repr(config)


def test_a_variable_may_stand_for_a_number() -> None:
    text = edited({"rehearsal": "anthropic\n    options: {api_key: '${K}', max_tokens: '${TOKENS}'}"})
    options = configured(text, {"K": "k", "TOKENS": "12"}).branches["agents"].leaves["anthropic"].options
    assert isinstance(options, ModelOptions)
    assert options.max_tokens == 12
    (problem,) = problems(text, {"K": "k", "TOKENS": "many"})
    assert (problem.code, problem.column) == ("E112", 44)


def test_a_doubled_dollar_is_a_plain_one() -> None:
    config = configured(edited({"./workspace": "'$${HERE}'"}))
    assert config.branches["spellcasting"].leaves["fs"].options == FsOptions(root="${HERE}")


def test_the_variable_of_a_leaf_is_needed_unless_its_options_name_another() -> None:
    text = edited({"leaf: console": "leaf: discord"})
    assert [problem.code for problem in problems(text)] == ["E402"]
    assert problems(text, {"DISCORD_TOKEN": "x"}) == ()
    other = edited({"leaf: console": "leaf: discord\n    options: {token: '${OTHER}'}"})
    leaf = configured(other, {"OTHER": "x"}).branches["chat"].leaves["discord"]
    assert leaf.options == DiscordOptions(token=Secret("${OTHER}", {}))


def test_prompts_are_no_place_for_variables() -> None:
    text = edited({"    circle:": "    call: {system_prompt: 'Say ${HOME}'}\n    circle:"})
    options = configured(text, {"HOME": "canary"}).branches["agents"].options
    assert "Say ${HOME}" in repr(options)


@pytest.mark.parametrize(
    ("nats", "url"),
    [
        ("embedded", "embedded"),
        ("nats://a:1,nats://b:2", "nats://a:1,nats://b:2"),
        ("'${URL}'", "nats://x:1"),
        ("{url: 'nats://${HOST}:4222', token: '${TOKEN}', replicas: 3}", "nats://demo:4222"),
        ("{url: nats://a:1, user: me, password: '${TOKEN}'}", "nats://a:1"),
        ("{url: nats://a:1, credentials: ./a.creds}", "nats://a:1"),
        ("'nats://me:${TOKEN}@a:1'", "nats://me:canary@a:1"),
        ("'nats://${TOKEN}@a:1,nats://${TOKEN}@b:2'", "nats://canary@a:1,nats://canary@b:2"),
    ],
)
def test_where_the_journals_are(nats: str, url: str) -> None:
    environ = {"URL": "nats://x:1", "HOST": "demo", "TOKEN": "canary"}
    config = configured(edited({"hearth\n": f"hearth\nnats: {nats}\n"}), environ)
    assert config.nats.url.reveal() == url
    assert config.nats.embedded is (url == "embedded")
    assert "canary" not in repr(config)


@pytest.mark.parametrize(
    ("nats", "code"),
    [
        ("{}", "E111"),
        ("{url: nats://a:1, token: abc}", "E401"),
        ("nats://abc@a:1", "E401"),
        ("nats://me:abc@a:1", "E401"),
        ("'nats://${TOKEN}:abc@a:1'", "E401"),
        ("{url: nats://a:1, user: me}", "E117"),
        ("{url: embedded, replicas: 3}", "E117"),
        ("{url: embedded, token: '${TOKEN}'}", "E117"),
        ("{url: nats://a:1, replicas: 9}", "E112"),
        ("[nats://a:1]", "E112"),
        ("http://a:1", "E112"),
    ],
)
def test_where_the_journals_cannot_be(nats: str, code: str) -> None:
    assert [problem.code for problem in problems(edited({"hearth\n": f"hearth\nnats: {nats}\n"}), {"TOKEN": "x"})] == [
        code
    ]
