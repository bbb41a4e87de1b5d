"""A scenario of the simulator, with its rules: whole nanoseconds, its headers and its buffers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.ns3_rdma.ecmp import Ways
from dimsweep.engine.extensions.ns3_rdma.streams import MarkingDraws
from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    Marking,
    PacketRun,
    Port,
    Settings,
    Wake,
    simulate_packets,
)
from dimsweep.engine.kernels.packet.transports import Dcqcn, Dctcp, Hpcc, Static, Timely, Transport

_SECOND = 10**9  # ticks
_IP_UDP_SEQUENCE = 20 + 8 + 6
_RESERVE, _RESUME_BELOW, _SHIFT = 4096, 3072, 3
_FIRST_PORT, _TARGET_PORT = 10000, 100
_TRANSPORTS: dict[int, type[Transport]] = {1: Dcqcn, 3: Hpcc, 7: Timely, 8: Dctcp, 12: Static}


class Build(StrEnum):
    """``ASIS``: as ASTRA-sim ships it; ``RESTORED``: as HPCC's authors wrote it.

    ASTRA-sim's has a link header of 2 bytes instead of 14, forgets when TIMELY's data were sent,
    and its network cards wait also for queue pairs that have nothing left to send.
    """

    ASIS = "asis"
    RESTORED = "restored"


@dataclass(frozen=True)
class Topology:
    """``links`` are (node, node, bits a second, ns); nodes that are no switches are hosts."""

    n_nodes: int
    switches: tuple[int, ...]
    links: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Scenario:
    """``flows`` are (source, target, bytes, start in ns, flows that must end first).

    ``config`` are the keys of the simulator's configuration file.
    """

    topology: Topology
    flows: Sequence[tuple[int, int, int, int, Sequence[int]]]
    config: Mapping[str, Any]


def simulate_scenario(
    scenario: Scenario, mode: int, *, window: bool, build: Build = Build.ASIS, run: int = 1
) -> PacketRun:
    """Simulate a scenario as the simulator does; times are nanoseconds.

    ``mode`` is CC_MODE, ``window`` HAS_WIN, ``run`` the number of the random streams' run.  Raises
    :class:`DimsweepError` for another mode, and for buffers that headroom exceeds: there the
    simulator computes with a wrapped number.
    """
    if mode not in _TRANSPORTS:
        raise DimsweepError(
            f"CC_MODE {mode} is not simulated", hint=f"one of {', '.join(map(str, _TRANSPORTS))}"
        )
    return simulate_packets(
        _fabric(scenario),
        _flows(scenario, window),
        _settings(scenario.config, mode, build),
        draws=MarkingDraws(scenario.topology.n_nodes, run),
    )


def _settings(config: Mapping[str, Any], mode: int, build: Build) -> Settings:
    link = 2 if build is Build.ASIS else 14
    telemetry = _TRANSPORTS[mode].header
    return Settings(
        transport=_transport(config, mode, build),
        ticks=_SECOND,
        payload=int(config["PACKET_PAYLOAD_SIZE"]),
        data_header=link + _IP_UDP_SEQUENCE + telemetry,
        ack_size=link + 20 + max(26, 12 + telemetry),
        frame_size=link + 29,
        reserve=_RESERVE,
        resume_below=_RESUME_BELOW,
        vary_window=bool(config["VAR_WIN"]),
        wake=Wake.ALL if build is Build.ASIS else Wake.UNSENT,
        until=int(float(config["SIMULATOR_STOP_TIME"]) * _SECOND),
        after_arrival=False,
        draws_per_frame=1,
    )


def _transport(config: Mapping[str, Any], mode: int, build: Build) -> Transport:
    add, add_fast, least = (_rate(config[key]) for key in ("RATE_AI", "RATE_HAI", "MIN_RATE"))
    gain, us = float(config["EWMA_GAIN"]), _SECOND // 10**6
    which = _TRANSPORTS[mode]
    if which is Dcqcn:
        return Dcqcn(
            gain,
            int(config["ALPHA_RESUME_INTERVAL"]) * us,
            int(config["RATE_DECREASE_INTERVAL"]) * us,
            1,
            int(config["RP_TIMER"]) * us,
            int(config["FAST_RECOVERY_TIMES"]),
            add,
            add_fast,
            least,
        )
    if which is Dctcp:
        return Dctcp(gain, _rate(config["DCTCP_RATE_AI"]), least)
    if which is Timely:
        times = 50 * us, 500 * us, 20 * us
        return Timely(0.875, 0.8, *times, add, add_fast, least, build is not Build.ASIS)
    if which is Hpcc:
        return Hpcc(
            float(config["U_TARGET"]),
            add,
            least,
            int(config["MI_THRESH"]),
            bool(config["FAST_REACT"]),
            byte_unit=128 * int(config["INT_MULTI"]),
            byte_bits=20,
            queue_unit=80 * int(config["INT_MULTI"]),
            queue_bits=17,
            time_bits=24,
        )
    return Static()


def _rate(text: str) -> int:
    """``50Mb/s`` as bits a second."""
    return int(float(text.removesuffix("Mb/s")) * 10**6)


def _fabric(scenario: Scenario) -> Fabric:
    topology, config = scenario.topology, scenario.config
    switches = set(topology.switches)
    ends = [(a, b, rate, delay) for a, b, rate, delay in topology.links]
    both = [
        pair for a, b, rate, delay in ends for pair in ((a, b, rate, delay), (b, a, rate, delay))
    ]
    hosts = [(node, rate) for node, _, rate, _ in both if node not in switches]
    markings = _markings(config)
    ports = [
        _switch_port(end, min(hosts)[1], markings) if end[0] in switches else Port(*end)
        for end in both
    ]
    buffer = int(config["BUFFER_SIZE"]) * 2**20
    return Fabric(ports, dict.fromkeys(topology.switches, buffer))


def _switch_port(
    end: tuple[int, int, int, int], host_rate: int, markings: dict[int, Marking]
) -> Port:
    """Its headroom is three times what the link holds; faster ports than hosts' take more."""
    node, to, rate, delay = end
    if rate not in markings:
        raise DimsweepError(
            f"KMIN_MAP, KMAX_MAP and PMAX_MAP have no threshold for {rate} bit/s",
            where=f"link {node} - {to}",
            hint=f"they know {', '.join(map(str, markings))}",
        )
    shift, faster = _SHIFT, rate
    while faster > host_rate and shift > 0:
        shift, faster = shift - 1, faster // 2
    headroom = rate * delay // 8 // 10**9 * 3
    return Port(node, to, rate, delay, markings[rate], headroom, shift)


def _markings(config: Mapping[str, Any]) -> dict[int, Marking]:
    """By the port's rate; thresholds are written in units of 1,000 bytes."""
    start, full, most = (_map(config[key]) for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"))
    return {
        rate: Marking(int(start[rate] * 1000), int(full[rate] * 1000), most[rate])
        for rate in start.keys() & full.keys() & most.keys()
    }


def _map(text: str) -> dict[int, float]:
    """``2 25000000000 100 100000000000 400``: how many, and then rates and values."""
    words = text.split()[1:]
    return {int(rate): float(value) for rate, value in zip(words[::2], words[1::2], strict=True)}


def _flows(scenario: Scenario, window: bool) -> list[Flow]:
    topology = scenario.topology
    links = {}
    for a, b, rate, delay in topology.links:
        links[a, b] = links[b, a] = rate, delay
    ways = Ways(((a, b) for a, b, _, _ in topology.links), topology.switches)
    ports: Counter[tuple[int, int]] = Counter()
    payload = int(scenario.config["PACKET_PAYLOAD_SIZE"])
    flows = []
    for source, target, size, start, after in scenario.flows:
        port = _FIRST_PORT + ports[source, target]
        ports[source, target] += 1
        way = ways.way(source, target, port, _TARGET_PORT)
        passed = [links[pair] for pair in pairwise(way)]
        # One way with payloads, and back with nothing.
        round_trip = sum(2 * delay + 8 * _SECOND * payload // rate for rate, delay in passed)
        most = round_trip * min(rate for rate, _ in passed) // (8 * _SECOND)
        back = ways.way(target, source, _TARGET_PORT, port)
        flows.append(
            Flow(size, way, back, start, tuple(after), most if window else None, round_trip)
        )
    return flows
