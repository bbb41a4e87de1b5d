"""What goes through a FRED switch: flows from input ports to output ports, and their routes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dimsweep.engine.errors import DimsweepError

Link = tuple[Any, Any]  # from one node of a switch to another


@dataclass(frozen=True)
class Flow:
    """What comes in at ``inputs`` is reduced to one, which leaves at every one of ``outputs``.

    A unicast has one of each, a multicast one input, a reduction one output; an all-reduce among
    the members of a group has the same ports on both sides.
    """

    inputs: frozenset[int]
    outputs: frozenset[int]
    name: str = ""

    @classmethod
    def among(cls, ports: Iterable[int], name: str = "") -> "Flow":
        """The all-reduce of a group."""
        members = frozenset(ports)
        return cls(members, members, name or "{" + ", ".join(map(str, sorted(members))) + "}")


@dataclass(frozen=True)
class Route:
    """A flow, and the links of the switch that it has for itself."""

    flow: Flow
    links: frozenset[Link]


class UnroutableError(DimsweepError):
    """Flows that cannot all pass at once: they share microswitches, and there are not enough middle
    switches to keep them apart."""

    @classmethod
    def naming(cls, flows: Sequence[Flow], middles: int) -> "UnroutableError":
        """The error that names the flows."""
        names = "; ".join(flow.name for flow in flows)
        return cls(
            f"{len(flows)} flows share microswitches in such a way that {middles} middle switches "
            f"cannot keep them apart: {names}",
            where="network.wafer",
            hint="groups on consecutive ports, more middle switches (network.wafer.middles), or "
            "network.wafer.remedy=serialise, decompose or place",
        )


def check_flows(flows: Sequence[Flow], ports: int) -> None:
    """Raise :class:`DimsweepError` naming the flow that leaves the ports, or shares one with
    another flow."""
    for side in ("inputs", "outputs"):
        taken: dict[int, str] = {}
        for flow in flows:
            own = getattr(flow, side)
            if not own:
                raise DimsweepError(f"the flow {flow.name} has no {side}", where="network.wafer")
            for port in sorted(own):
                if not 0 <= port < ports:
                    raise DimsweepError(
                        f"the flow {flow.name} uses port {port} of a switch of {ports} ports",
                        where="network.wafer",
                        hint=f"ports are 0 to {ports - 1}: a smaller group, or a larger switch",
                    )
                if port in taken:
                    raise DimsweepError(
                        f"the flows {taken[port]} and {flow.name} share port {port} "
                        f"among their {side}",
                        where="network.wafer",
                        hint="flows that pass at once have ports of their own",
                    )
                taken[port] = flow.name
