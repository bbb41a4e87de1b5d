"""Charts of a study as a notebook shows them."""

import html
from dataclasses import dataclass
from pathlib import Path

_HEIGHT = 620  # pixels of a notebook's output


@dataclass(frozen=True)
class Plot:
    """A page of charts, which Jupyter shows in a frame of its own; it needs no network."""

    page: str

    def save(self, file: str | Path) -> Path:
        """Write it as a page of its own; returns its path."""
        path = Path(file)
        path.write_text(self.page, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        inside = html.escape(self.page, quote=True)
        return (
            f'<iframe srcdoc="{inside}" width="100%" height="{_HEIGHT}" frameborder="0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"a page of charts, {len(self.page) / 1e6:.1f} MB; save(file) writes it"
