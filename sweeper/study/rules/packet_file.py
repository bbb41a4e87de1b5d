"""A configuration of ns-3 in ``network.packets.file``: what of it, and beside it, has no effect."""

from dimsweep.engine import Fidelity
from dimsweep.engine.formats import read_ns3_config
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.places import found


def without_effect(composed: Composed) -> list[str]:
    """Name the lines of the file that are not simulated, and the keys that it replaces."""
    config = composed.config
    file = config.network.packets.file
    if file is None or config.fidelity is not Fidelity.PACKET:
        return []
    read = read_ns3_config(found(file))
    keys = {f"network.packets.{name}" for name in read.packets}
    warnings = [
        f"{key} has no effect: {file} gives it" for key in composed.overridden if key in keys
    ]
    if read.ignored:
        warnings.append(f"not simulated, of {file}: {'; '.join(read.ignored)}")
    return warnings
