"""Markdown as Slack's own notation, `mrkdwn`, and that notation as plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FENCED = re.compile(r"^(?P<marks>`{3,})[^`\n]*\n(?P<code>.*?)(?:\n?^(?P=marks)`*[ \t]*$|\Z)", re.M | re.S)
_CODE = re.compile(r"(?P<ticks>`+)(?P<code>[^`\n]+)(?P=ticks)(?!`)")
_LINK = re.compile(r"\[([^\]\[\n]+)\]\(((?:https?://|mailto:)[^\s()<>|]+)\)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$", re.M)
_BOLD = re.compile(r"(\*\*|__)(?=[^\s*_])([^\n]*?[^\s_])\1(?!\*)")
_ITALIC = re.compile(r"(?<![*\w])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![*\w])")
_STRIKE = re.compile(r"~~(?=[^\s~])([^\n~]*[^\s~])~~")
_BULLET = re.compile(r"^([ \t]*)[*+][ \t]+", re.M)
_SPECIAL = re.compile(r"<([^<>\n]*)>")
_STRONG = "\x00"


def escape(text: str) -> str:
    """The text with what Slack would read as its own: it then mentions nobody and links nowhere."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mrkdwn(markdown: str) -> str:
    """Markdown in Slack's notation. Code stays as it is; what Slack has no notation for, such as tables, stays text."""
    pieces: list[str] = []
    end = 0
    for block in _FENCED.finditer(markdown):
        pieces += [_prose(markdown[end : block.start()]), f"```\n{escape(block['code'])}\n```"]
        end = block.end()
    return "".join([*pieces, _prose(markdown[end:])])


def readable(text: str, names: Mapping[str, str]) -> str:
    """What a person wrote in Slack as plain text; `names` are those of the users that it mentions, by id."""

    def plain(found: re.Match[str]) -> str:
        target, _, label = found[1].partition("|")
        if target.startswith("@"):
            return f"@{names.get(target[1:], label or target[1:])}"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):
            return label or f"@{target[1:].partition('^')[0]}"
        return f"{label} ({target})" if label and label not in target else target

    return unescape(_SPECIAL.sub(plain, text))


def mentioned(text: str) -> list[str]:
    """The ids of the users that a message mentions."""
    return [found[1].partition("|")[0][1:] for found in _SPECIAL.finditer(text) if found[1].startswith("@")]


def unescape(text: str) -> str:
    """The way back from `escape`."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _prose(text: str) -> str:
    pieces: list[str] = []
    end = 0
    for code in _CODE.finditer(text):
        pieces += [_styled(text[end : code.start()]), escape(f"`{code['code']}`")]
        end = code.end()
    return "".join([*pieces, _styled(text[end:])])


def _styled(text: str) -> str:
    text = escape(text.replace(_STRONG, ""))
    text = _BULLET.sub(r"\1• ", text)
    text = _HEADING.sub(lambda found: f"{_STRONG}{found[1].replace('**', '')}{_STRONG}", text)
    text = _BOLD.sub(rf"{_STRONG}\2{_STRONG}", text)
    text = _ITALIC.sub(r"_\1_", text)
    text = _STRIKE.sub(r"~\1~", text)
    text = _LINK.sub(r"<\2|\1>", text)
    return text.replace(_STRONG, "*")
