"""What mkdocs does to the pages that it builds: docstrings name objects as Sphinx does."""

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|data|mod|meth|attr|obj):<code>~?([^<]*)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`Name``` as the name alone, which mkdocstrings would print with its role."""
    return _ROLE.sub(r"<code>\1</code>", html)
