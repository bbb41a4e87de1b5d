from collections.abc import Mapping
from typing import Any, TypeVar

from bokeh.models import Model

_Model = TypeVar("_Model", bound=Model)

def __getattr__(name: str) -> Any: ...
def components(models: Mapping[str, _Model]) -> tuple[str, dict[str, str]]: ...
