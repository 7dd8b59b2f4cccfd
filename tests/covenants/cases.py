"""What the check must catch: each case is a change to a right file, with a mark where the problem must be shown."""

from __future__ import annotations

from typing import NamedTuple

from tests.covenants.configs import MARK


class Case(NamedTuple):
    """One thing that is wrong: its name, the change, the code, and words of the message and of the hint."""

    name: str
    edits: dict[str, str]
    code: str
    message: str
    hint: str = ""
    environ: dict[str, str] = {}


PROMPT = "  - ChatAfferent -> AgentPrompt\n"
REPLY = "  - AgentResponse -> ChatEfferentDraft\n"
CALL = "  - route: AgentToolCall -> SpellInvocation\n    fault: AgentToolFault\n"
THOUGHT = "  - AgentThought -> nowhere\n"
LONG_REPLY = "  - route: AgentResponse -> ChatEfferentDraft\n"

CASES = [
    # the form of the file
    Case("an unknown key", {"coven: hearth": f"coven: hearth\n{MARK}nast: embedded"}, "E110", "`nast`", "`nats`"),
    Case(
        "an unknown key of a circle",
        {"      gates:": f"      {MARK}gate: [x]\n      gates:"},
        "E110",
        "`gate`",
        "`gates`",
    ),
    Case("an unknown key of a ward", {"max_turns": f"{MARK}max_turn"}, "E110", "`max_turn`", "`max_turns`"),
    Case("an unknown key of a route", {"    fault:": f"    {MARK}falt: x\n    fault:"}, "E110", "`falt`", "`fault`"),
    Case("an unknown option of a leaf", {"root:": f"{MARK}rot:"}, "E110", "`rot`", "`root`"),
    Case("a missing key", {"coven: hearth\nb": f"{MARK}b"}, "E111", "`coven` is missing", "add `coven: …`"),
    Case("a missing option", {"fs: {root": f"{MARK}shell: {{}}\n    fs: {{root"}, "E111", "`allow` is missing"),
    Case("a route without its text", {PROMPT: PROMPT + f"  - {MARK}name: x\n"}, "E111", "`route` is missing"),
    Case("a number too small", {"max_turns: 40": f"max_turns: {MARK}0"}, "E112", "whole number >= 1", "`max_turns: 1`"),
    Case(
        "a text for a list",
        {"[done, fs.read_text, fs.write_text]": f"{MARK}done"},
        "E112",
        "a list belongs here, not text",
        "`gates: [first, second]`",
    ),
    Case(
        "a text for a number", {"40": f"{MARK}many"}, "E112", "a whole number belongs here, not text", "`max_turns: 40`"
    ),
    Case(
        "a word that is not possible",
        {"coven: hearth": f"coven: hearth\ndurability: {MARK}powr"},
        "E112",
        "`powr`",
        "`power`",
    ),
    Case("a covenant that is no list", {"covenant:\n": f"covenant: {MARK}x\nx:\n"}, "E112", "a list belongs here"),
    Case("a branch that is no mapping", {"    leaf: console": f"    {MARK}console"}, "E112", "a mapping"),
    Case(
        "a server without a scheme",
        {"coven: hearth": f"coven: hearth\nnats: {MARK}localhost"},
        "E112",
        "`localhost`",
        "nats://",
    ),
    Case("a name that no journal can carry", {"hearth": f"{MARK}my hearth"}, "E113", "`my hearth`", "letters, digits"),
    Case("a branch name with a dot", {"  chat:": f"  {MARK}a.b:\n    branch: agents\n  chat:"}, "E113", "`a.b`"),
    Case(
        "a branch name that is taken",
        {"  spellcasting:": f"  {MARK}covenant:\n    branch: chat\n  spellcasting:"},
        "E113",
        "uses itself",
    ),
    Case("a misspelt branch", {"  agents:": f"  {MARK}agnets:"}, "E114", "`agnets`", "`agents`"),
    Case(
        "a misspelt branch type",
        {"  chat:": f"  critics:\n    branch: {MARK}agent\n  chat:"},
        "E114",
        "`agent`",
        "`agents`",
    ),
    Case("a misspelt chat leaf", {"leaf: console": f"leaf: {MARK}consle"}, "E115", "`consle`", "`console`"),
    Case("a misspelt crystal", {"rehearsal": f"{MARK}antropic"}, "E115", "`antropic`", "`anthropic`"),
    Case(
        "a misspelt substrate",
        {"    fs: {root: ./workspace}": f"    fs: {{}}\n    {MARK}shel: {{}}"},
        "E115",
        "`shel`",
        "`shell`",
    ),
    Case("no arrow", {"ChatAfferent -> AgentPrompt": f"{MARK}ChatAfferent to AgentPrompt"}, "E116", "no arrow", "`->`"),
    Case("another arrow", {"ChatAfferent -> AgentPrompt": f"ChatAfferent {MARK}=> AgentPrompt"}, "E116", "is `->`"),
    Case(
        "two arrows",
        {"ChatAfferent -> AgentPrompt": f"ChatAfferent -> AgentPrompt {MARK}-> AgentThought"},
        "E116",
        "one arrow",
    ),
    Case("no target", {"AgentThought -> nowhere": f"'AgentThought -> {MARK}'"}, "E116", "a kind belongs here"),
    Case(
        "something behind the target",
        {"-> AgentPrompt": f"-> AgentPrompt {MARK}when x"},
        "E116",
        "`when x`",
        "long form",
    ),
    Case("nowhere as source", {THOUGHT: THOUGHT + f"  - {MARK}nowhere -> AgentPrompt\n"}, "E116", "`nowhere`"),
    Case(
        "a route as a key",
        {REPLY: f"  - {MARK}AgentResponse -> ChatEfferentDraft: {{when: 'true'}}\n"},
        "E116",
        "long form",
        "- route: AgentResponse",
    ),
    Case(
        "a condition on nowhere",
        {THOUGHT: f"  - route: AgentThought -> nowhere\n    {MARK}when: 'true'\n"},
        "E117",
        "`when` has no meaning",
    ),
    Case("options of no crystal", {"rehearsal": f"auto\n    {MARK}options: {{model: x}}"}, "E117", "`auto` names none"),
    Case("options below `auto`", {"rehearsal": f"\n      {MARK}auto: {{model: x}}"}, "E117", "`auto` names none"),
    Case(
        "two crystals", {"crystal: rehearsal": f"{MARK}crystal: {{rehearsal: , auto: }}"}, "E112", "names one crystal"
    ),
    Case("an unknown crystal with options", {"rehearsal": f"\n      {MARK}antropic: {{}}"}, "E115", "`antropic`"),
    Case(
        "two ways to sign in",
        {"coven: hearth": f"coven: hearth\nnats: {{url: nats://a:1, token: '${{T}}', {MARK}credentials: a.creds}}"},
        "E117",
        "two ways",
        environ={"T": "1"},
    ),
    # coverage
    Case(
        "a produced kind without route",
        {THOUGHT: "", "covenant:": f"{MARK}covenant:"},
        "E201",
        "`AgentThought`",
        "`- AgentThought -> nowhere`",
    ),
    Case(
        "a route and nowhere",
        {THOUGHT: THOUGHT + f"  - {MARK}AgentResponse -> nowhere\n"},
        "E202",
        "line 14",
        "keep one",
    ),
    Case("nowhere twice", {THOUGHT: THOUGHT + THOUGHT.replace("- ", f"- {MARK}")}, "E202", "twice"),
    Case("nowhere twice in one line", {THOUGHT: f"  - {MARK}AgentThought, AgentThought -> nowhere\n"}, "E202", "twice"),
    Case(
        "a misspelt kind among several that go nowhere",
        {THOUGHT: f"  - AgentThought, {MARK}AgentToughts -> nowhere\n"},
        "E206",
        "`AgentToughts`",
        "`AgentThought`",
    ),
    Case(
        "several sources of one target",
        {THOUGHT: THOUGHT + f"  - SpellFault, {MARK}SpellResult -> AgentToolFault\n"},
        "E116",
        "several kinds in one line go to `nowhere` alone",
        "a route for each",
    ),
    Case(
        "a name for several that go nowhere",
        {THOUGHT: f"  - route: AgentThought, ChatDelivered -> nowhere\n    {MARK}name: away\n"},
        "E117",
        "`name` has no meaning for several kinds that go to `nowhere`",
    ),
    Case(
        "a required kind without source",
        {REPLY: "", "covenant:": f"{MARK}covenant:"},
        "E203",
        "`ChatEfferentDraft`",
        "`- AgentResponse -> ChatEfferentDraft`",
    ),
    Case(
        "a required prompt without source",
        {PROMPT: "", "covenant:": f"{MARK}covenant:"},
        "E203",
        "`AgentPrompt`",
        "`- ChatAfferent -> AgentPrompt`",
    ),
    Case(
        "a required request without source",
        {CALL: "", "covenant:": f"{MARK}covenant:"},
        "E203",
        "`SpellInvocation`",
        "`- AgentToolCall -> SpellInvocation`",
    ),
    Case(
        "two routes that both match",
        {THOUGHT: THOUGHT + f"  - {MARK}AgentResponse -> AgentPrompt\n"},
        "E204",
        "line 14",
        "`when:`",
    ),
    Case(
        "two routes of which one always matches",
        {
            THOUGHT: THOUGHT + "  - route: AgentResponse -> AgentPrompt\n    when: origin == 'x'\n    max_hops: 3\n",
            REPLY: REPLY.replace("- ", f"- {MARK}"),
        },
        "E204",
        "both routes match",
    ),
    Case(
        "two routes of one name",
        {
            REPLY: "  - route: AgentResponse -> ChatEfferentDraft\n    when: text == ''\n"
            + f"  - {MARK}route: AgentResponse -> ChatEfferentDraft\n    when: text != ''\n"
        },
        "E205",
        "line 14",
        "`name: …`",
    ),
    Case("a misspelt source", {"- ChatAfferent": f"- {MARK}ChatAferent"}, "E206", "`ChatAferent`", "`ChatAfferent`"),
    Case("a misspelt target", {"-> AgentPrompt": f"-> {MARK}AgentPromt"}, "E206", "`AgentPromt`", "`AgentPrompt`"),
    Case(
        "a misspelt fault",
        {"fault: AgentToolFault": f"fault: {MARK}AgentToolFalt"},
        "E206",
        "`AgentToolFalt`",
        "`AgentToolFault`",
    ),
    Case(
        "a misspelt kind of an instance",
        {"- ChatAfferent": f"- chat.{MARK}ChatAferent"},
        "E206",
        "`chat` has no kind",
        "`ChatAfferent`",
    ),
    Case(
        "an endpoint in no manifest",
        {THOUGHT: THOUGHT + f"  - {MARK}OrderPlaced -> AgentPrompt\n"},
        "E206",
        "`OrderPlaced`",
    ),
    Case("a misspelt instance", {"- ChatAfferent": f"- {MARK}chatt.ChatAfferent"}, "E207", "`chatt`", "`chat`"),
    Case(
        "a consumed kind as source",
        {THOUGHT: THOUGHT + f"  - {MARK}ChatEfferentDraft -> AgentPrompt\n"},
        "E208",
        "does not produce it",
        "ChatAfferent",
    ),
    Case(
        "a produced kind as target",
        {"-> AgentPrompt": f"-> {MARK}AgentResponse"},
        "E208",
        "does not take it in",
        "AgentPrompt",
    ),
    Case("an internal kind", {THOUGHT: THOUGHT + f"  - {MARK}ChatEfferent -> AgentPrompt\n"}, "E208", "internal"),
    Case(
        "a kept kind into a short-lived one",
        {REPLY: REPLY + f"  - {MARK}AgentThought -> ChatStreamCompleted\n", THOUGHT: ""},
        "E217",
        "short-lived",
    ),
    # approvals of routes
    Case(
        "an approval of nothing",
        {THOUGHT: f"  - route: AgentThought -> nowhere\n    {MARK}approve: true\n"},
        "E117",
        "`approve` has no meaning for a route to `nowhere`",
    ),
    Case(
        "an approval that is a word",
        {REPLY: LONG_REPLY + f"    approve: {MARK}always\n"},
        "E112",
        "true or false",
    ),
    Case(
        "an approval with an unknown key",
        {PROMPT: f"  - route: ChatAfferent -> AgentPrompt\n    approve: {{{MARK}approver: [ada]}}\n"},
        "E110",
        "`approver`",
        "`approvers`",
    ),
    Case(
        "an approval of what is short-lived",
        {"  - AgentChunk -> ChatChunk\n": f"  - route: AgentChunk -> ChatChunk\n    {MARK}approve: true\n"},
        "E217",
        "it is gone before anybody has answered",
        "on the route of the final message",
    ),
    Case(
        "an approval in a chat that is not there",
        {REPLY: LONG_REPLY + f"    approve: {{chat: {MARK}chatt}}\n"},
        "E207",
        "no chat is called `chatt`",
        "`chat`",
    ),
    Case(
        "an approval in what is no chat",
        {REPLY: LONG_REPLY + f"    approve: {{chat: {MARK}agents}}\n"},
        "E207",
        "no chat is called `agents`",
        "there are: chat",
    ),
    Case(
        "an approval without a chat",
        {
            "  chat:\n    leaf: console\n": "",
            PROMPT: "",
            REPLY: "  - AgentResponse -> nowhere\n",
            "  - AgentChunk -> ChatChunk\n": "  - AgentChunk -> nowhere\n",
            "  - AgentStreamCompleted -> ChatStreamCompleted\n": "  - AgentStreamCompleted -> nowhere\n",
            THOUGHT: "  - route: AgentThought -> AgentPrompt\n"
            f"    map: {{sender: \"'me'\"}}\n    {MARK}approve: true\n",
        },
        "E218",
        "no chat in which one could be asked",
        "add `chat: …`",
    ),
    Case(
        "an approval with several chats",
        {
            "  agents:": "  board:\n    branch: chat\n  agents:",
            PROMPT: "  - chat.ChatAfferent -> AgentPrompt\n  - board.ChatAfferent -> nowhere\n",
            REPLY: "  - route: AgentResponse -> board.ChatEfferentDraft, chat.ChatEfferentDraft\n"
            f"    {MARK}approve: true\n",
            "-> ChatChunk": "-> chat.ChatChunk",
            "-> ChatStreamCompleted": "-> chat.ChatStreamCompleted",
        },
        "E221",
        "several chats, chat, board",
        "approve: {chat: chat}",
    ),
    Case(
        "an approval of some calls",
        {CALL: CALL + f"    when: tool_name == 'fs.write_text'\n    {MARK}approve: true\n"},
        "E222",
        "does not know the `when:`",
        "`circle: {approve: [fs.read_text, fs.write_text]}`",
    ),
    Case(
        "an approval of calls in a conversation",
        {CALL: CALL + f"    approve: {{{MARK}conversation: board}}\n"},
        "E222",
        "goes where `ApprovalAsked` is routed",
        "remove `conversation`",
    ),
    Case(
        "an approval of calls by others than those of the circle",
        {
            CALL: CALL + f"    approve: {{{MARK}approvers: [ada]}}\n",
            "      wards:": "      approvers: [bob]\n      wards:",
        },
        "E222",
        "has other approvers",
        "`circle: {approvers: [ada]}`",
    ),
    Case(
        "an approval of a result",
        {
            "  - SpellResult -> AgentToolResult\n": "  - route: SpellResult -> AgentToolResult\n"
            f"    {MARK}approve: true\n"
        },
        "E222",
        "an agent waits for `AgentToolResult`",
        "approve calls",
    ),
    Case(
        "an approval of what streams",
        {REPLY: LONG_REPLY + f"    {MARK}approve: true\n"},
        "E223",
        "line 20 shows chat the same text while it is being written",
        "`- AgentChunk -> nowhere`",
    ),
    # answers, cycles, circles
    Case(
        "a fault with no way home",
        {"  - SpellFault -> AgentToolFault\n": f"  - {MARK}SpellFault -> nowhere\n"},
        "E211",
        "`SpellFault`",
        "`- SpellFault -> AgentToolFault`",
    ),
    Case(
        "a fault that goes nowhere at all",
        {"  - SpellFault -> AgentToolFault\n": "", "  - route: AgentTool": f"  - {MARK}route: AgentTool"},
        "E211",
        "`SpellFault`",
        "`- SpellFault -> AgentToolFault`",
    ),
    Case(
        "a result that goes elsewhere",
        {
            "  - SpellResult -> AgentToolResult\n": (
                f"  - {MARK}route: SpellResult -> ChatEfferentDraft\n    map: {{text: \"'done'\"}}\n"
            )
        },
        "E211",
        "`SpellResult`",
        "`- SpellResult -> AgentToolResult`",
    ),
    Case(
        "a thought that prompts itself",
        {THOUGHT: f"  - {MARK}AgentThought -> AgentPrompt\n"},
        "E212",
        "AgentThought -> AgentPrompt -> AgentThought",
        "max_hops",
    ),
    Case(
        "tool calls to nowhere",
        {CALL: f"  - {MARK}AgentToolCall -> nowhere\n"},
        "E213",
        "fs.read_text, fs.write_text",
        "SpellInvocation",
    ),
    Case(
        "a misspelt gate",
        {"[done, fs.read_text": f"[done, {MARK}fs.read_txt"},
        "E214",
        "`fs.read_txt`",
        "`fs.read_text`",
    ),
    Case(
        "a gate without its substrate",
        {"fs.write_text]": f"{MARK}shell.exec]"},
        "E215",
        "`shell`",
        "add `shell: …` under `spellcasting:`",
    ),
    Case("a circle without done", {"[done, fs.read_text": f"{MARK}[fs.read_text"}, "E216", "no gate `done`"),
    Case("a circle without a bound", {"[{max_turns: 40}]": f"{MARK}[]"}, "E216", "no ward", "max_turns"),
    Case(
        "an approval that nobody is asked for",
        {"      wards:": f"      {MARK}approve: [fs.write_text]\n      wards:"},
        "E218",
        "nobody is asked",
        "add `- ApprovalAsked -> ChatQuestion`",
    ),
    Case(
        "sampling that the model does not take",
        {"crystal: rehearsal": f"crystal: anthropic\n    call: {{sampling: {{{MARK}temperature: 0.5}}}}"},
        "E219",
        "does not take `temperature`",
        environ={"ANTHROPIC_API_KEY": "canary"},
    ),
    Case(
        "children with a crystal that is not named",
        {
            "crystal: rehearsal": "crystal: rehearsal\n    crystals: {small: rehearsal}\n"
            f"    child_crystals: [{MARK}smal]"
        },
        "E220",
        "no crystal `smal`",
        "did you mean `small`?",
    ),
    Case(
        "another crystal that is unknown",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{{MARK}small: anthropics}}"},
        "E115",
        "no crystal leaf `anthropics`",
        "did you mean `anthropic`?",
    ),
    Case(
        "another crystal without its key",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{{MARK}small: anthropic}}"},
        "E402",
        "ANTHROPIC_API_KEY",
    ),
    Case(
        "another crystal with an option that is unknown",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{small: {{anthropic: {{{MARK}modle: x}}}}}}"},
        "E110",
        "`modle`",
        "did you mean `model`?",
        environ={"ANTHROPIC_API_KEY": "canary"},
    ),
    Case(
        "another crystal with a key in clear",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{small: {{anthropic: {{api_key: {MARK}hush}}}}}}"},
        "E401",
        "`api_key`",
    ),
    Case(
        "another crystal that is any",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{{MARK}small: auto}}"},
        "E117",
        "cannot be `auto`",
    ),
    Case(
        "another crystal that is two",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{{MARK}small: {{anthropic: , openai: }}}}"},
        "E112",
        "is one crystal",
    ),
    Case(
        "another crystal without a name that can be one",
        {"crystal: rehearsal": f"crystal: rehearsal\n    crystals: {{{MARK}'a b': rehearsal}}"},
        "E113",
        "`a b` cannot be the name of a crystal",
    ),
    Case(
        "sampling that another crystal does not take",
        {
            "crystal: rehearsal": "crystal: rehearsal\n    crystals: {small: anthropic}\n"
            f"    call: {{sampling: {{{MARK}temperature: 0.5}}}}"
        },
        "E219",
        "does not take `temperature`",
        environ={"ANTHROPIC_API_KEY": "canary"},
    ),
    # fields and types
    Case(
        "a missing field",
        {"SpellResult -> AgentToolResult": f"{MARK}SpellResult -> AgentToolFault"},
        "E301",
        "`error`",
        "map: {error: …}",
    ),
    Case(
        "a required field of a long form",
        {THOUGHT: f"  - route: {MARK}AgentThought -> AgentToolResult\n"},
        "E301",
        "`correlation_id`, `result`",
        "map: {correlation_id: …, result: …}",
    ),
    Case(
        "a type that does not fit",
        {REPLY: LONG_REPLY + f"    map:\n      text: {MARK}ward\n"},
        "E302",
        "wants str",
    ),
    Case(
        "a constant that does not fit",
        {REPLY: LONG_REPLY + f"    map: {{text: {MARK}5}}\n"},
        "E302",
        "wants str",
    ),
    Case(
        "an expression that never fits",
        {REPLY: LONG_REPLY + f"    map: {{text: {MARK}1 + 1}}\n"},
        "E302",
        "wants str",
    ),
    Case(
        "a position that is no text",
        {REPLY: LONG_REPLY + f"    map: {{text: {MARK}record.position}}\n"},
        "E302",
        "wants str",
    ),
    Case(
        "a misspelt field",
        {REPLY: LONG_REPLY + f"    map: {{{MARK}txt: text}}\n"},
        "E303",
        "`txt`",
        "`text`",
    ),
    Case(
        "no CEL",
        {REPLY: LONG_REPLY + f"    when: origin == {MARK}== 'x'\n"},
        "E304",
        "no CEL",
    ),
    Case(
        "no CEL in the second line of a block",
        {REPLY: LONG_REPLY + f"    when: |\n      origin == 'x' &&\n      {MARK}&& true\n"},
        "E304",
        "no CEL",
    ),
    Case(
        "an unknown name",
        {REPLY: LONG_REPLY + f"    when: origin == 'x' && {MARK}endig == 'failed'\n"},
        "E305",
        "`endig`",
        "`ending`",
    ),
    Case(
        "an unknown name alone",
        {REPLY: LONG_REPLY + f"    map: {{text: {MARK}hello}}\n"},
        "E305",
        "`hello`",
        "\"'hello'\"",
    ),
    Case(
        "an unknown name in quotes",
        {REPLY: LONG_REPLY + f"    map: {{text: \"'> ' + {MARK}txt\"}}\n"},
        "E305",
        "`txt`",
        "`text`",
    ),
    Case(
        "a text without quotes in a condition",
        {REPLY: LONG_REPLY + f"    when: origin == {MARK}discord\n"},
        "E305",
        "`discord`",
        "`'discord'`",
    ),
    Case(
        "an unknown part of the record",
        {REPLY: LONG_REPLY + f"    when: record.{MARK}sesion != ''\n"},
        "E305",
        "`sesion`",
        "`session`",
    ),
    Case(
        "an unknown function",
        {REPLY: LONG_REPLY + f"    when: text.{MARK}startWith('a')\n"},
        "E305",
        "`startWith`",
        "`startsWith`",
    ),
    Case(
        "a condition that is a text",
        {REPLY: LONG_REPLY + f"    when: {MARK}text\n"},
        "E306",
        "neither true nor false",
    ),
    Case(
        "a condition that is a number",
        {REPLY: LONG_REPLY + f"    when: {MARK}'1 + 1'\n"},
        "E306",
        "neither true nor false",
    ),
    Case(
        "a question whose id is what a model has thought",
        {
            THOUGHT: "  - route: AgentThought -> ChatQuestion\n"
            f"    map: {{correlation_id: {MARK}text, question: text}}\n"
        },
        "E307",
        "`ChatQuestion.correlation_id` says which question or call is meant",
        "`record.id`",
    ),
    Case(
        "an id with something of the text in it",
        {
            THOUGHT: "  - route: AgentThought -> ChatQuestion\n"
            f'    map: {{correlation_id: {MARK}"record.id + text.substring(0, 1)", question: text}}\n'
        },
        "E307",
        "must not come from text",
        "`record.correlation_id`",
    ),
    Case(
        "an id with the name of a conversation in it",
        {
            THOUGHT: "  - route: AgentThought -> ChatQuestion\n"
            f"    map: {{correlation_id: {MARK}\"'about ' + record.session\", question: text}}\n"
        },
        "E307",
        "must not come from text",
        "`record.id`",
    ),
    # secrets
    Case(
        "a secret by its shape",
        {"hearth\n": f"hearth # {MARK}sk-ant-api03-abcdefghijklmnopqrstuv\n"},
        "E401",
        "an Anthropic key",
        "${NAME}",
    ),
    Case(
        "a secret by the leaf's word",
        {"rehearsal": f"anthropic\n    options: {{api_key: {MARK}hunter2}}"},
        "E401",
        "`api_key`",
        "${NAME}",
    ),
    Case(
        "a secret in an address",
        {"coven: hearth": f"coven: hearth\nnats: {MARK}nats://s3cret@demo:4222"},
        "E401",
        "in clear",
    ),
    Case(
        "a password in an address",
        {"coven: hearth": f"coven: hearth\nnats: {MARK}nats://me:s3cret@demo:4222"},
        "E401",
        "a password",
    ),
    Case(
        "an unset variable",
        {"rehearsal": f"anthropic\n    options: {{api_key: '{MARK}${{MY_KEY}}'}}"},
        "E402",
        "MY_KEY",
        "export MY_KEY=…",
    ),
    Case(
        "an empty variable",
        {"./workspace": f"'{MARK}${{ROOT_FOLDER}}'"},
        "E402",
        "ROOT_FOLDER",
        environ={"ROOT_FOLDER": ""},
    ),
    Case(
        "a variable that the leaf needs",
        {"leaf: console": f"leaf: discord\n    {MARK}options: {{guilds: [1]}}"},
        "E402",
        "DISCORD_TOKEN",
        "export DISCORD_TOKEN=…",
    ),
    Case(
        "a reference to no variable",
        {"./workspace": f"'{MARK}${{MY-ROOT}}'"},
        "E403",
        "`${MY-ROOT}`",
        "letters, digits",
    ),
    Case(
        "an unknown option of the environment",
        {"coven: hearth": f"coven: hearth\nnats: '{MARK}${{NATS_URL}}'"},
        "E402",
        "NATS_URL",
    ),
    # user code
    Case(
        "a missing file",
        {REPLY: LONG_REPLY + f"    via: {MARK}nowhere.py:f\n"},
        "E404",
        "nowhere.py",
        "relative",
    ),
    Case(
        "via without a function",
        {REPLY: LONG_REPLY + f"    via: {MARK}nowhere.py\n"},
        "E112",
        "names no code",
        "file.py:name",
    ),
    Case(
        "via and map",
        {REPLY: LONG_REPLY + f"    via: nowhere.py:f\n    {MARK}map: {{text: text}}\n"},
        "E117",
        "`via`",
    ),
    # warnings
    Case(
        "a request whose failure reaches nobody",
        {CALL: f"  - {MARK}AgentToolCall -> SpellInvocation\n"},
        "W502",
        "the caller waits",
        "fault: AgentToolFault",
    ),
    Case(
        "the lethal trifecta",
        {
            "fs.write_text]": "http.fetch]",
            "      gates": f"      {MARK}gates",
            "    fs: {root: ./workspace}": "    fs:\n    http:",
        },
        "W501",
        "private data (fs.read_text), untrusted content (http.fetch) and a way out (http.fetch)",
    ),
]
