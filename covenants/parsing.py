"""From bytes to a document: everything that can be wrong with a text and with YAML ends here, as a problem."""

from __future__ import annotations

import re
import warnings
from typing import Any

from covenants.document import Document, Path, Place, Span
from covenants.problems import shown

MAX_BYTES = 256 * 1024
MAX_VALUES = 20_000
MAX_DEPTH = 40


def parse(name: str, data: bytes) -> Document:
    """The document of these bytes. Never raises: what is wrong is in its `problems`, and `root` is then None."""
    document = Document(name, "")
    text = _decode(document, data)
    if text is None:
        return document
    document = Document(name, text)
    node = _compose(document)
    if node is not None:
        try:
            document.root = _Converter(document).convert(node, (), ())
        except _TooLarge as error:
            document.add("E108", str(error), "write it out once, in fewer values", at=document.place(error.offset))
    if document.root is None and not document.problems:
        document.add("E103", "the file holds nothing", "`coven init` writes one to begin with")
    if any(problem.code != "E106" for problem in document.problems):
        document.root = None  # of a doubled key the first counts, and checking can go on; of the rest nothing is sure
    return document


def _decode(document: Document, data: bytes) -> str | None:
    if len(data) > MAX_BYTES:
        document.add("E108", f"the file has {len(data):,} bytes, the limit is {MAX_BYTES:,}", "split long texts off")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        place = Document("", before).place(len(before))
        document.add("E102", f"byte {data[error.start]:#04x} is no UTF-8 text", "save the file as UTF-8", at=place)
        return None
    bad = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    if bad:
        place = Document("", text).place(bad.start())
        message = f"the character U+{ord(bad[0]):04X} cannot stand in a text file"
        document.add("E102", message, "remove it; is this the right file?", at=place)
        return None
    if not text.strip():
        document.add("E103", "the file is empty", "`coven init` writes one to begin with")
        return None
    return text


def _compose(document: Document) -> Any:
    """The node graph of the text, or None with a problem noted."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be used again
            node = YAML(typ="safe", pure=True).compose(document.text)  # pyright: ignore[reportUnknownMemberType]
    except MarkedYAMLError as error:
        _note_syntax(document, error)
        return None
    except RecursionError:
        document.add("E108", "lists and mappings stand in each other too deep", f"at most {MAX_DEPTH} levels")
        return None
    except YAMLError as error:
        document.add(
            "E105", f"this is no YAML: {shown(error, 200)}", "look for a character that is not meant to be there"
        )
        return None
    except Exception as error:  # noqa: BLE001 - the boundary to the parser: broken escapes raise its inner errors
        document.add("E105", f"this is no YAML: {shown(error, 200)}", "look for a broken escape in a quoted text")
        return None
    if node is None:
        document.add("E103", "the file holds nothing but comments", "`coven init` writes one to begin with")
    return node


def _note_syntax(document: Document, error: Any) -> None:
    mark = error.problem_mark or error.context_mark
    place = Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)
    reason = shown(error.problem or error.context or "it ends too early", 200)
    if "'\\t'" in reason:
        document.add("E104", "a tab stands here; YAML is indented with spaces", "replace the tab by spaces", at=place)
        return
    hint = "look at the indentation, at quotes and at brackets here and in the lines above"
    if "mapping values are not allowed" in reason:
        hint = "put a text that has `: ` in it in quotes, and check the indentation"
    elif "another document" in reason:
        reason, hint = "another document begins here", "one file holds one document: remove the `---`"
    elif "undefined alias" in reason:
        hint = "an alias `*name` repeats what stands at `&name`; a text that begins with `*` needs quotes"
    elif "cannot start any token" in reason:
        hint = "put the text in quotes"
    elif "stream end" in reason or "end of stream" in reason:
        hint = "a bracket or a quote is not closed"
    document.add("E105", f"this is no YAML: {reason}", hint, at=place)


class _TooLarge(Exception):
    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class _Converter:
    """Turns the node graph into plain values, noting places; aliases are followed and counted."""

    def __init__(self, document: Document) -> None:
        from ruamel.yaml import YAML

        self._document = document
        self._scalars: Any = YAML(typ="safe", pure=True).constructor
        self._values = 0

    def convert(self, node: Any, path: Path, above: tuple[int, ...]) -> Any:
        """The plain value of a node. Raises `_TooLarge`."""
        start = node.start_mark.index
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooLarge(f"with its aliases written out the file has over {MAX_VALUES:,} values", start)
        if len(above) > MAX_DEPTH:
            raise _TooLarge(f"lists and mappings stand in each other over {MAX_DEPTH} levels deep", start)
        if id(node) in above:
            self._add("E107", "an alias in this value points back to the value itself", node, "write the value out")
            return None
        literal = getattr(node, "style", None) == "|"
        self._document.spans[path] = Span(start, node.end_mark.index, literal)
        above = (*above, id(node))
        match node.id:
            case "mapping":
                return self._mapping(node, path, above)
            case "sequence":
                if node.tag != "tag:yaml.org,2002:seq":
                    return self._foreign(node)
                return [self.convert(item, (*path, number), above) for number, item in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _mapping(self, node: Any, path: Path, above: tuple[int, ...]) -> Any:
        if node.tag != "tag:yaml.org,2002:map":
            return self._foreign(node)
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged |= self._merge(value, path, above)
                continue
            name = self._key(key)
            if name is None:
                continue
            if name in first:
                self._note_duplicate(name, path, key, first[name])
                continue
            first[name] = key.start_mark.line + 1
            result[name] = self.convert(value, (*path, name), above)
            self._document.keys[*path, name] = Span(key.start_mark.index, key.end_mark.index)
        return {**merged, **result}

    def _merge(self, node: Any, path: Path, above: tuple[int, ...]) -> dict[str, Any]:
        sources = node.value if node.id == "sequence" else [node]
        result: dict[str, Any] = {}
        for source in sources:
            value = self.convert(source, path, above)
            if isinstance(value, dict):
                result = {**value, **result}
            else:
                self._add("E109", "`<<` merges mappings only", source, "name the anchor of a mapping: `<<: *name`")
        return result

    def _key(self, key: Any) -> str | None:
        if key.id == "scalar" and key.tag == "tag:yaml.org,2002:str":
            return str(key.value)
        text = shown(key.value) if key.id == "scalar" else "a list or mapping"
        self._add("E109", f"keys are texts, this one is not: {text}", key, "put it in quotes")
        return None

    def _note_duplicate(self, name: str, path: Path, key: Any, line: int) -> None:
        if path == ("branches",):
            message, hint = f"two branches are called `{shown(name)}`", "give one of them a name of its own"
        else:
            message, hint = f"the key `{shown(name)}` stands twice", "keep one of them"
        self._add("E106", f"{message}; the first is in line {line}", key, hint)

    def _scalar(self, node: Any) -> Any:
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str" | "timestamp":
                return str(node.value)
            case "null":
                return None
            case "bool" | "int" | "float" as kind:
                try:
                    return getattr(self._scalars, f"construct_yaml_{kind}")(node)
                except (ValueError, KeyError, OverflowError) as error:
                    self._add("E105", f"this is no {kind}: {shown(error)}", node, "put a text in quotes")
                    return None
            case _:
                return self._foreign(node)

    def _foreign(self, node: Any) -> None:
        tag = shown(str(node.tag).replace("tag:yaml.org,2002:", "!!"))
        self._add("E109", f"values of the YAML type `{tag}` are not used here", node, f"remove `{tag}`")

    def _add(self, code: str, message: str, node: Any, hint: str) -> None:
        self._document.add(code, message, hint, at=self._document.place(node.start_mark.index))
