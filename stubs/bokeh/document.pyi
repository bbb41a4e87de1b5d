from collections.abc import Callable
from typing import Any

from bokeh.models import Model

class Document:
    roots: list[Model]
    models: Any
    title: str
    template: Any
    theme: Any
    validate: Callable[[], None]
    def __init__(self, **options: Any) -> None: ...
    def add_root(self, model: Model) -> None: ...
    def add_periodic_callback(
        self, callback: Callable[[], None], period_milliseconds: int
    ) -> Any: ...
    def add_next_tick_callback(self, callback: Callable[[], None]) -> Any: ...
    def on_session_destroyed(self, *callbacks: Callable[[Any], None]) -> None: ...
