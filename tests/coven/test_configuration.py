"""Which services run, against which server."""

from __future__ import annotations

import pytest

from coven.configuration import ConfigError, UnknownService, configure, services_of
from coven.link import sign_in

TWO_CHATS = """
coven: hearth
nats: {url: "nats://one:4222,nats://two:4222", user: ada, password: "${NATS_PASSWORD}"}
branches:
  console: {branch: chat}
  desk: {branch: chat, options: {session: desk}}
  agents: {crystal: rehearsal, circle: {gates: [done]}}
covenant:
  - console.ChatAfferent -> AgentPrompt
  - desk.ChatAfferent -> AgentPrompt
  - {route: AgentResponse -> console.ChatEfferentDraft, when: origin == 'console'}
  - {route: AgentResponse -> desk.ChatEfferentDraft, when: origin == 'desk'}
  - AgentToolCall -> nowhere
  - AgentThought -> nowhere
  - AgentChunk -> nowhere
  - AgentStreamCompleted -> nowhere
"""
SECRET = {"NATS_PASSWORD": "p@ss/word"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "coven.yaml"
    path.write_text(TWO_CHATS)
    return path


def test_services_start_in_the_order_in_which_they_answer(path):
    assert services_of(configure(path, SECRET).config) == ("agents", "covenant", "console", "desk")


def test_only_takes_a_name_or_a_type(path):
    config = configure(path, SECRET).config
    assert services_of(config, ["desk"]) == ("desk",)
    assert services_of(config, ["chat", "covenant"]) == ("covenant", "console", "desk")
    with pytest.raises(UnknownService, match="'spells'; this coven has agents, covenant, console, desk"):
        services_of(config, ["spells"])
    with pytest.raises(UnknownService, match="; say `--only` once for each"):
        services_of(config, ["agents,covenant"])


def test_signing_in_takes_the_secret_from_the_environment(path):
    config = configure(path, SECRET).config
    assert sign_in(config).url == "nats://ada:p%40ss%2Fword@one:4222,nats://ada:p%40ss%2Fword@two:4222"


def test_another_server_keeps_how_to_sign_in_except_that_of_the_embedded_one(path):
    assert sign_in(configure(path, SECRET, nats="nats://three").config).url == "nats://ada:p%40ss%2Fword@three"
    assert configure(path, SECRET, nats="embedded").config.nats.embedded


def test_what_is_not_run_may_lack_its_variables_but_the_server_may_not(path):
    with pytest.raises(ConfigError):
        configure(path, {})
    path.write_text(TWO_CHATS.replace("nats: {", "nats: embedded\n#"))
    assert configure(path, {}).config.nats.embedded


def test_errors_are_counted_and_carried(tmp_path):
    path = tmp_path / "coven.yaml"
    path.write_text("coven: hearth\nbranches: {}\ncovenant: [x]\n")
    with pytest.raises(ConfigError, match="cannot be used: mend the") as caught:
        configure(path, {})
    assert caught.value.problems
