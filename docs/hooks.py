"""Changes of the pages that mkdocs builds: names in docstrings, and breaks on narrow screens."""

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|data|mod|meth|attr|obj):<code>~?([^<]*)</code>")
_CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
_TEXT = re.compile(r"(<code>)?([^<>]+)(?=<)")
_CODE = re.compile(r"(<code>)([^<]+)(?=</code>)")
_BLOCK = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_BREAK = re.compile(r"(?<=[\w)])(?:(?:::?|[_/])(?=\w{2})|\.(?=[A-Za-z]\w{3}))")  # not in "B/s"
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[kMGT]?i?B|[mun\u00b5]?s)(?!\w))")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with plain names for Sphinx roles, and with long names that may break."""
    # mkdocstrings would print :class:`Name` with its role.
    html = _ROLE.sub(r"<code>\1</code>", html)
    html = _CELL.sub(lambda cell: _TEXT.sub(_breakable, cell[0]), html)
    parts = _BLOCK.split(html)  # blocks of code are at the odd places
    parts[::2] = (_CODE.sub(_breakable, part) for part in parts[::2])
    return "".join(parts)


def _breakable(part: re.Match[str]) -> str:
    """Return a text that may break after a mark in a name, but not before a unit."""
    code, text = part[1] or "", part[2]
    text = text if code else _UNIT.sub("&nbsp;", text)
    return code + _BREAK.sub(lambda mark: mark[0] + "<wbr>", text)
