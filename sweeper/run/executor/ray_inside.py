"""Functions that use private names of Ray; no other module uses any."""

from contextlib import suppress
from typing import Any


def reload_environment(ray: Any) -> None:
    """Make an already imported Ray read its environment again.

    A version of Ray without these names keeps the environment that it read at import.
    """
    with suppress(AttributeError):
        ray._raylet.Config.initialize("")
        constants = ray._private.ray_constants
        everywhere = constants.env_bool(
            constants.ENABLE_RAY_CLUSTERS_ENV_VAR, not constants.IS_WINDOWS_OR_OSX
        )
        constants.ENABLE_RAY_CLUSTER = everywhere


def resolve_address(ray: Any, address: str) -> str:
    """Return the HOST:PORT that Ray joins for ``address``.

    For ``auto`` it is RAY_ADDRESS, or the address of the last cluster of this machine, which may
    have died. A version of Ray without these names returns ``address`` unchanged.
    """
    with suppress(AttributeError):
        return ray._private.services.canonicalize_bootstrap_address(address) or address
    return address
