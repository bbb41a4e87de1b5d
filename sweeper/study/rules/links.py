"""What a fidelity ignores of the links, or of the dimensions that they realise."""

from collections.abc import Collection

from engine import Fidelity, Program
from engine.network import Clos
from sweeper.config.network import Network
from sweeper.config.parts.part import per_dimension
from sweeper.config.schema import Config


def ignored_links(config: Config, program: Program) -> list[str]:
    """Keys of links, where only dimensions are simulated."""
    return [
        f"network.{key} has no effect"
        + (" but on the cost" if key == "fabric" and program.prices is not None else "")
        + ": fidelity=phase simulates no links"
        + (_oversubscription(config, program) if key == "fabric" else "")
        for key, value in Network()
        if getattr(config.network, key) != value
    ]


def _oversubscription(config: Config, program: Program) -> str:
    """What an oversubscribed Clos comes to, for a kernel that knows bandwidths only."""
    dims = program.names.dims
    fabrics = per_dimension(config.network.fabric, len(dims), "fabric")
    return "".join(
        f"; between leaf switches {fabric.oversubscription:g}:1 oversubscription leaves dimension "
        f"{name} 1/{fabric.oversubscription:g} of its bandwidth, which topology.bandwidth can say"
        for name, fabric in zip(dims, fabrics, strict=True)
        if isinstance(fabric, Clos) and fabric.oversubscription > 1
    )


# What only one fidelity reads; the other keys of the network are read by all that know its links.
_ONLY = {
    Fidelity.MESSAGE: ("switching", "packet", "buffer", "window"),
    Fidelity.PACKET: ("packets", "max_packets"),
}


def ignored_by_others(config: Config, used: Collection[Fidelity]) -> list[str]:
    """Keys that none of the fidelities that are ``used`` reads, though they know the links."""
    return [
        f"network.{key} has no effect: only fidelity={fidelity} reads it"
        for fidelity, keys in _ONLY.items()
        for key in keys
        if fidelity not in used and getattr(config.network, key) != getattr(Network(), key)
    ]


def ignored_dimensions(config: Config, turned: Collection[str]) -> list[str]:
    """Keys of dimensions that were set, where a file or a wafer says what the links are; and the
    seed of routes that need none."""
    instead = "file" if config.network.file else "wafer" if config.network.wafer else ""
    found = [
        f"{key} has no effect: network.{instead} says what the links are"
        for key in ("topology.bandwidth", "topology.latency")
        if instead and key in turned
    ]
    if config.network.seed and config.network.routing != "ecmp":
        found.append("network.seed has no effect: only network.routing=ecmp draws routes")
    return found
