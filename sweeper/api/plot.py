"""Charts of a study as a notebook shows them."""

import html
from dataclasses import dataclass
from pathlib import Path

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.output import write_file

_HEIGHT = 620  # pixels of a notebook's output


@dataclass(frozen=True)
class Plot:
    """A page of charts, which Jupyter shows in a frame of its own; it needs no network."""

    page: str

    def save(self, file: str | Path) -> Path:
        """Write the page into a file that ends in .html; returns its path.  Raises
        :class:`DimsweepError` for another ending: a browser draws the charts."""
        path = Path(file)
        if path.suffix.lower() not in (".html", ".htm"):
            raise DimsweepError(
                "charts are saved as a page, which ends in .html",
                where=str(file),
                hint="Results.write_picture draws what was found into a .png, .svg or .pdf",
            )
        return write_file(path, "the page", self.page.encode())

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        inside = html.escape(self.page, quote=True)
        return (
            f'<iframe srcdoc="{inside}" width="100%" height="{_HEIGHT}" frameborder="0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"a page of charts, {len(self.page) / 1e6:.1f} MB; save(file) writes it"
