"""What Ray has no public name for; all that we know of its inside is here."""

from contextlib import suppress
from typing import Any


def read_again(ray: Any) -> None:
    """Make a Ray that was imported before, by a notebook perhaps, read its environment again.

    A version of Ray without these names has what it read when it was imported.
    """
    with suppress(AttributeError):
        ray._raylet.Config.initialize("")
        constants = ray._private.ray_constants
        everywhere = constants.env_bool(
            constants.ENABLE_RAY_CLUSTERS_ENV_VAR, not constants.IS_WINDOWS_OR_OSX
        )
        constants.ENABLE_RAY_CLUSTER = everywhere
