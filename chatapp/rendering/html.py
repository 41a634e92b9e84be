"""Tokens become HTML, from a list of what may be made.

The twin of static/chat/markdown/nodes.js: a browser that reads this HTML has the tree that nodes.js
builds, but for the colours of code. What comes out goes through nh3, which knows the same list: a
mistake here stays without consequences.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

import nh3

from chatapp.rendering.code import coloured
from chatapp.rendering.links import host_of, misleads
from chatapp.rendering.rules import parse, prepared
from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token

_HEADINGS: Final = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
"""Headings of an answer stand below those of the page."""
_PAIRS: Final = {
    **{"paragraph": "p", "blockquote": "blockquote", "bullet_list": "ul", "ordered_list": "ol"},
    **{"list_item": "li", "thead": "thead", "tbody": "tbody", "tr": "tr", "th": "th", "td": "td"},
    **{"em": "em", "strong": "strong", "s": "s"},
}
_SIDED: Final = {"bullet_list_open", "ordered_list_open", "blockquote_open"}
"""What has marks at its side: they stand where its first letter begins to be read."""
_SIDE: Final = re.compile("text-align:(center|right)")
_ATTRIBUTES: Final = {
    "a": {"class", "href", "title", "rel", "target"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "span": {"class"},
    "figure": {"class", "data-language"},
    "pre": {"tabindex", "role", "aria-label"},
    "ol": {"start", "dir"},
    **{"ul": {"dir"}, "blockquote": {"dir"}, "table": {"dir"}},
    **{"th": {"class"}, "td": {"class"}},
}
_TAGS: Final = {
    *(_HEADINGS.values()),
    *(_PAIRS.values()),
    *(_ATTRIBUTES),
    *("table", "br", "hr", "code", "figcaption"),
}


def to_html(text: str) -> str:
    """The HTML of an answer; safe to put into a page whatever the text is. CPU only."""
    builder = _Builder()
    builder.add(parse(prepared(text)))
    return nh3.clean(
        "".join(builder.html),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel=None,
    )


class _Builder:
    def __init__(self) -> None:
        self.html: list[str] = []
        self._links: list[tuple[str, int]] = []
        """Address of each open link, and where its text begins."""
        self._text: list[str] = []
        """What is to be read so far, without elements."""
        self._labels: dict[str, str] = table()["prose"]

    def add(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            self._add(token)

    def _add(self, token: Token) -> None:
        match token.type:
            case "inline":
                self.add(token.children or [])
            case "text" | "text_special" | "plain_inline":
                self._say(token.content)
            case "softbreak":
                self._say("\n")
            case "hardbreak" | "hr":
                self.html.append("<hr>" if token.type == "hr" else "<br>")
            case "code_inline":
                self._element("code", token.content)
            case "math_inline":
                kind = "math display" if token.markup == "$$" else "math"
                self._element("span", token.content, {"class": kind})
            case "math_block":
                self._element("div", token.content, {"class": "math display"})
            case "plain":
                self._element("p", token.content)
            case "fence" | "code_block":
                self._code(token.info, token.content)
            case "image":
                self._image(token)
            case _ if token.nesting == 1:
                self._open(token, token.type.removesuffix("_open"))
            case _ if token.nesting == -1:
                self._close(token, token.type.removesuffix("_close"))
            case _:
                raise AssertionError(f"no rule for {token.type}")

    def _open(self, token: Token, name: str) -> None:
        if token.hidden:
            return
        if name == "link":
            href = str(token.attrGet("href"))
            self._tag("a", _link_attributes(href))
            self._links.append((href, len(self._text)))
        elif name == "table":
            region = {"class": "table", "tabindex": "0", "role": "region"}
            self._tag("div", region | {"aria-label": self._labels["table"]})
            self._tag("table", {"dir": "auto"})
        elif name == "heading":
            self._tag(_HEADINGS[token.tag])
        else:
            self._tag(_PAIRS[name], _attributes_of(token))

    def _close(self, token: Token, name: str) -> None:
        if token.hidden:
            return
        if name == "link":
            href, since = self._links.pop()
            if misleads("".join(self._text[since:]), href):
                self._element("span", f" ({host_of(href)})", {"class": "host"})
            self.html.append("</a>")
        elif name == "table":
            self.html.append("</table></div>")
        else:
            tag = _HEADINGS[token.tag] if name == "heading" else _PAIRS[name]
            self.html.append(f"</{tag}>")

    def _image(self, token: Token) -> None:
        """Pictures would be fetched, and a request can carry away what was said: a link."""
        alt = _spoken(token.children or [])
        if self._links:
            self._say(alt)
            return
        href = str(token.attrGet("src"))
        self._tag("a", {"class": "picture", **_link_attributes(href)})
        self._say(alt)
        host = host_of(href)
        self._element("span", f" ({host})" if alt else host, {"class": "host"})
        self.html.append("</a>")

    def _code(self, info: str, content: str) -> None:
        language = language_of(info)
        plain = self._labels["code"]
        label = self._labels["region"].replace("{language}", language) if language else plain
        self._tag("figure", {"class": "code"} | ({"data-language": language} if language else {}))
        self._element("figcaption", language or plain)
        self._tag("pre", {"tabindex": "0", "role": "region", "aria-label": label})
        self.html.append(f"<code>{coloured(language, content)}</code></pre></figure>")

    def _say(self, text: str) -> None:
        self._text.append(text)
        self.html.append(escape(text))

    def _element(self, tag: str, text: str, attributes: dict[str, str] | None = None) -> None:
        self._tag(tag, attributes)
        self._say(text)
        self.html.append(f"</{tag}>")

    def _tag(self, tag: str, attributes: dict[str, str] | None = None) -> None:
        pairs = "".join(f' {name}="{escape(value)}"' for name, value in (attributes or {}).items())
        self.html.append(f"<{tag}{pairs}>")


def language_of(info: str) -> str:
    """What follows the signs that open a block of code."""
    return re.split(r"[ \t{,:]", info.strip(" \t\n"), maxsplit=1)[0][:32]


def _link_attributes(href: str) -> dict[str, str]:
    return {
        "href": href,
        "title": host_of(href),
        "rel": "noopener noreferrer nofollow",
        "target": "_blank",
    }


def _attributes_of(token: Token) -> dict[str, str]:
    if token.type in _SIDED:
        start = token.attrGet("start")
        return {"dir": "auto"} if start is None else {"dir": "auto", "start": str(start)}
    side = _SIDE.search(str(token.attrGet("style") or ""))
    return {"class": side[1]} if side else {}


def _spoken(tokens: Iterable[Token]) -> str:
    return "".join(
        _spoken(token.children or [])
        if token.type == "image"
        else (" " if token.type in ("softbreak", "hardbreak") else token.content)
        for token in tokens
    )
