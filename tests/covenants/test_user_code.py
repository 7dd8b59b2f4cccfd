"""User code: loaded by file under a private name, and every way in which it can be wrong is a problem."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from branches.catalogue import LeafFailed
from covenants.usercode import UserCodeError, load_object
from tests.covenants.configs import CATALOGUE, configured, edited, problems
from tests.covenants.test_transform import LONG_REPLY, REPLY, VIA

SUBSTRATE = '''\
import msgspec
from branches.spellcasting import Spell

class Today(Spell, frozen=True, kw_only=True):
    """What the weather is."""
    full_name = "weather.today"
    city: str

class Weather:
    """The weather outside."""
    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        unit: str = "C"
    spells = (Today,)
    trust = {"weather.today": ("untrusted",)}
    def __init__(self, options):
        self.options = options
    async def cast(self, spell, casting):
        return spell.city + self.options.unit
    async def close(self):
        pass

class NoSpells(Weather):
    spells = ()

class NoCast:
    spells = (Today,)

class Blocking(Weather):
    def cast(self, spell, casting):
        return "slowly"

class Demanding(Weather):
    def __init__(self):
        pass

class Unnamed(Weather):
    class Nameless(Spell, frozen=True, kw_only=True):
        """It has no name."""
    spells = (Nameless,)

class Bare(Weather):
    class Storm(Spell, frozen=True, kw_only=True):
        """Its name lacks the substrate."""
        full_name = "storm"
    spells = (Storm,)

class Twice(Weather):
    class Again(Spell, frozen=True, kw_only=True):
        """The same name."""
        full_name = "weather.today"
    spells = (Today, Again)

class Astray(Weather):
    class Else(Spell, frozen=True, kw_only=True):
        """Of another substrate."""
        full_name = "climate.today"
    spells = (Today, Else)

class Unknowable(Weather):
    class Deep(Spell, frozen=True, kw_only=True):
        """Its argument is nothing that JSON can say."""
        full_name = "weather.deep"
        root: complex
    spells = (Deep,)

class Misspelt(Weather):
    class Typo(Spell, frozen=True, kw_only=True):
        """Its argument has a type that nobody knows."""
        full_name = "weather.typo"
        city: "Strng"
    spells = (Typo,)

class TrustList(Weather):
    trust = ("untrusted",)

class TrustTypo(Weather):
    trust = {"weather.today": ("untrustd",)}

class TrustText(Weather):
    trust = {"weather.today": "untrusted"}

class TrustGone(Weather):
    trust = {"weather.yesterday": ("untrusted",)}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(VIA)
    (tmp_path / "weather.py").write_text(SUBSTRATE)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "raising.py").write_text("x = 1\nraise RuntimeError('not today')\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "importing.py").write_text("import mine\n")
    return tmp_path


@pytest.mark.parametrize(
    ("via", "code", "says"),
    [
        ("gone.py:f", "E404", "there is no file"),
        ("broken.py:f", "E405", "broken.py, line 1"),
        ("raising.py:f", "E405", "raising.py, line 2, raised RuntimeError: not today"),
        ("leaving.py:f", "E405", "SystemExit"),
        ("importing.py:f", "E405", "No module named 'mine'"),
        ("mine.py:shot", "E406", "mine.py has no `shot`"),
        ("mine.py:SECRET", "E407", "is no function"),
        ("mine.py:Class", "E407", "is no function"),
        ("mine.py:later", "E407", "is async"),
        ("mine.py:yields", "E407", "is a generator"),
        ("mine.py:two", "E407", "does not take one argument"),
        ("mine.py:none", "E407", "does not take one argument"),
        ("mine.py:prompts", "E407", "takes ChatAfferent, and this route brings AgentResponse"),
        ("mine.py:gives", "E407", "gives AgentPrompt, and this route wants ChatEfferentDraft"),
    ],
)
def test_a_via_that_cannot_work(folder: Path, via: str, code: str, says: str) -> None:
    found = problems(edited({REPLY: LONG_REPLY + f"    via: {via}\n"}), base=folder)
    (problem,) = found
    assert (problem.code, problem.line, problem.column) == (code, 15, 10)
    assert says in problem.message


def test_the_hint_shows_the_signature_that_is_wanted(folder: Path) -> None:
    (problem,) = problems(edited({REPLY: LONG_REPLY + "    via: mine.py:later\n"}), base=folder)
    assert problem.hint == "def later(entry: AgentResponse) -> ChatEfferentDraft | None: …"


def test_the_nearest_name_is_suggested(folder: Path) -> None:
    (problem,) = problems(edited({REPLY: LONG_REPLY + "    via: mine.py:shot\n"}), base=folder)
    assert problem.hint == "did you mean `shout`?"


def test_the_path_of_imports_is_left_alone(folder: Path) -> None:
    before = list(sys.path)
    load_object("mine.py:shout", folder)
    assert sys.path == before
    assert "mine" not in sys.modules


def test_the_same_file_is_run_once_and_a_changed_one_again(folder: Path) -> None:
    first = load_object("mine.py:shout", folder)
    assert load_object("mine.py:shout", folder) is first
    (folder / "mine.py").write_text(VIA + "\n# changed\n")
    assert load_object("mine.py:shout", folder) is not first


def test_a_file_that_failed_is_tried_again(folder: Path) -> None:
    with pytest.raises(UserCodeError):
        load_object("raising.py:f", folder)
    with pytest.raises(UserCodeError, match="not today"):
        load_object("raising.py:f", folder)


# Leaves of the user


def weather(options: str) -> str:
    return edited(
        {"    fs: {root: ./workspace}": f"    fs: {{}}\n    weather: {options}", "fs.write_text]": "weather.today]"}
    )


def test_a_substrate_of_the_user_is_a_leaf_like_others(folder: Path) -> None:
    config = configured(weather("{use: weather.py:Weather, unit: F}"), base=folder)
    leaf = config.branches["spellcasting"].leaves["weather"]
    assert leaf.info.summary == "The weather outside."
    assert list(config.branches["spellcasting"].spells) == [
        "fs.read_text",
        "fs.list_dir",
        "fs.write_text",
        "weather.today",
    ]
    assert leaf.info.load()(leaf.options).options.unit == "F"


def test_what_a_leaf_of_the_user_brings_counts_in_the_trifecta(folder: Path) -> None:
    text = edited(
        {
            "    fs: {root: ./workspace}": "    fs:\n    http:\n    weather: {use: weather.py:Weather}",
            "fs.write_text]": "weather.today, http.fetch]",
        }
    )
    (problem,) = problems(text, base=folder)
    assert "untrusted content (weather.today, http.fetch)" in problem.message


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("{use: weather.py:Weather, unt: F}", "E110", "`unt`"),
        ("{use: weather.py:NoSpells}", "E407", "names no spells"),
        ("{use: weather.py:NoCast}", "E407", "has no method `cast`"),
        ("{use: weather.py:Today}", "E407", "has no method `cast`"),
        ("{use: weather.py:Blocking}", "E407", "has a method `cast` that is not async"),
        ("{use: weather.py:Demanding}", "E407", "cannot be made with its options"),
        ("{use: weather.py:Unnamed}", "E407", "a spell `Nameless` whose `full_name` is no text"),
        ("{use: weather.py:Bare}", "E407", "a spell `Storm` whose `full_name` is `storm`"),
        ("{use: weather.py:Twice}", "E407", "two spells `weather.today`: Today and Again"),
        ("{use: weather.py:Astray}", "E407", "serves `climate.today`, and stands here as `weather`"),
        ("{use: weather.py:Unknowable}", "E407", "no schema can be made of: type <class 'complex'> is not supported"),
        ("{use: weather.py:Misspelt}", "E407", "no schema can be made of: name 'Strng' is not defined"),
        ("{use: weather.py:TrustList}", "E407", "a `trust` that is no mapping by spell"),
        ("{use: weather.py:TrustTypo}", "E407", "says `untrustd` in its `trust`"),
        ("{use: weather.py:TrustText}", "E407", "says `trust` of `weather.today` that is no list of words"),
        ("{use: weather.py:TrustGone}", "E407", "says `trust` of `weather.yesterday`, which it does not serve"),
        ("{use: mine.py:shout}", "E407", "is no class"),
        ("{use: gone.py:Weather}", "E404", "there is no file"),
        ("{use: 5}", "E112", "names user code"),
    ],
)
def test_a_leaf_of_the_user_that_cannot_work(folder: Path, options: str, code: str, says: str) -> None:
    found = problems(weather(options), base=folder)
    assert [problem.code for problem in found] == [code], "and its gates are not said to be missing beside"
    assert says in found[0].message


def test_a_leaf_that_serves_the_spells_of_another(folder: Path) -> None:
    text = edited({"    fs: {root: ./workspace}": "    fs: {}\n    clouds: {use: weather.py:Weather}"})
    (problem,) = problems(text, base=folder)
    assert (problem.code, problem.hint) == ("E407", "call it `weather:`")


def test_a_chat_and_a_crystal_of_the_user(folder: Path) -> None:
    (folder / "leaves.py").write_text(
        "class Pager:\n    async def run(self, port, ready): ...\n    async def deliver(self, message): ...\n"
        "class Brain:\n    async def invoke(self, request, on_text=None): ...\n    def __init__(self, options): ...\n"
    )
    text = edited(
        {
            "leaf: console": "leaf: pager\n    use: leaves.py:Pager",
            "crystal: rehearsal": "crystal: brain\n    use: leaves.py:Brain",
        }
    )
    (problem,) = problems(text, base=folder)
    assert problem.message == "`leaves.py:Pager` cannot be made with its options and the name of its instance"
    assert problem.hint == "def __init__(self, options, name): …"
    (folder / "leaves.py").write_text(
        (folder / "leaves.py").read_text().replace("Pager:\n", "Pager:\n    def __init__(self, options, name): ...\n")
    )
    config = configured(text, base=folder)
    assert list(config.branches["chat"].leaves) == ["pager"]
    assert list(config.branches["agents"].leaves) == ["brain"]
    assert "pager" not in {leaf.name for leaf in CATALOGUE.leaves}


def test_what_only_a_substrate_says_of_itself_is_free_in_other_leaves(folder: Path) -> None:
    (folder / "leaves.py").write_text(
        "class Brain:\n    trust, spells = 'me', 7\n    def __init__(self, options): ...\n"
        "    async def invoke(self, request, on_text=None): ...\n"
    )
    config = configured(edited({"crystal: rehearsal": "crystal: brain\n    use: leaves.py:Brain"}), base=folder)
    info = config.branches["agents"].leaves["brain"].info
    assert (info.trust, info.spells) == ({}, ())


def test_a_crystal_of_the_user_that_cannot_be_asked(folder: Path) -> None:
    (folder / "leaves.py").write_text("class Brain:\n    def __init__(self, options): ...\n")
    (problem,) = problems(edited({"crystal: rehearsal": "crystal: brain\n    use: leaves.py:Brain"}), base=folder)
    assert (problem.code, problem.message) == ("E407", "`leaves.py:Brain` has no method `invoke`")
    assert problem.hint == "a crystal leaf has `invoke`"


def test_a_leaf_of_the_user_that_raises_when_it_is_made_is_named_with_its_line(folder: Path) -> None:
    (folder / "leaves.py").write_text(
        "class Brain:\n    def __init__(self, options):\n        raise RuntimeError('no licence')\n"
        "    async def invoke(self, request, on_text=None): ...\n"
    )
    config = configured(edited({"crystal: rehearsal": "crystal: brain\n    use: leaves.py:Brain"}), base=folder)
    says = "the crystal leaf `brain` could not be made: RuntimeError: no licence (leaves.py, line 3)"
    with pytest.raises(LeafFailed, match=re.escape(says)):
        config.branches["agents"].leaves["brain"].info.make(None)


def test_what_a_file_prints_while_it_is_loaded_is_no_output_of_the_command(folder: Path, capfd) -> None:
    (folder / "talking.py").write_text("print('loaded')\ndef f(entry): ...\n")
    load_object("talking.py:f", folder)
    assert capfd.readouterr() == ("", "loaded\n")
