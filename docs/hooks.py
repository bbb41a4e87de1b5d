"""Changes of the pages that mkdocs builds: names in docstrings and long names in tables."""

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|data|mod|meth|attr|obj):<code>~?([^<]*)</code>")
_CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_BREAK = re.compile(r"(?<=[\w)])(?:(?:::|[_/])(?=\w)|\.(?=[A-Za-z]\w{3}))")  # not before ".py"


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with plain names for Sphinx roles and breakable names in its tables."""
    # mkdocstrings would print :class:`Name` with its role.
    html = _ROLE.sub(r"<code>\1</code>", html)
    return _CELL.sub(lambda cell: _CODE.sub(_breakable, cell[0]), html)


def _breakable(code: re.Match[str]) -> str:
    """Return a code element whose name may break after "_", "/", "::" and "."."""
    return f"<code>{_BREAK.sub(lambda mark: mark[0] + '<wbr>', code[1])}</code>"
