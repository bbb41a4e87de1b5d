"""Recorded runs of ns-3: their files, random numbers, and the choice among equal routes."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dimsweep.engine.errors import DimsweepError
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
from dimsweep.engine.kernels.packet.state import compiled, kernel
from dimsweep.engine.kernels.packet.transports import Dcqcn, Dctcp, Hpcc, Static, Timely, Transport
from dimsweep.engine.lower.program import Floats, Longs

_WORD = 0xFFFFFFFF


class Ways:
    """The shortest routes between the hosts of a topology; hosts do not forward packets."""

    def __init__(self, links: Iterable[tuple[int, int]], switches: Iterable[int]) -> None:
        self._switches = frozenset(switches)
        self._beside: dict[int, list[int]] = defaultdict(list)
        for a, b in links:
            self._beside[a].append(b)
            self._beside[b].append(a)
        self._distances: dict[int, dict[int, int]] = {}
        self._hops: dict[tuple[int, int], tuple[int, ...]] = {}

    def way(self, source: int, target: int, source_port: int, target_port: int) -> tuple[int, ...]:
        """Return the nodes on the route from host ``source`` to host ``target``, both included.

        A hash of addresses and ports chooses among equal routes, as in ns-3.
        """
        key = mixed(address(source), address(target), source_port | target_port << 16)
        way = [source]
        while way[-1] != target:
            hops = self._next_hops(way[-1], target)
            way.append(hops[0] if len(hops) == 1 else hops[murmur3(key, way[-1]) % len(hops)])
        return tuple(way)

    def _next_hops(self, node: int, target: int) -> tuple[int, ...]:
        """Return the neighbours of ``node`` that are nearer to ``target``, highest number first."""
        if (node, target) not in self._hops:
            left = self._distances_to(target)
            nearer = [n for n in self._beside[node] if left.get(n, -1) == left[node] - 1]
            self._hops[node, target] = tuple(sorted(nearer, reverse=True))
        return self._hops[node, target]

    def _distances_to(self, target: int) -> dict[int, int]:
        """Return the hops from each node to ``target`` through switches only."""
        if target not in self._distances:
            found, queue = {target: 0}, deque([target])
            while queue:
                node = queue.popleft()
                for other in self._beside[node]:
                    if other not in found:
                        found[other] = found[node] + 1
                        if other in self._switches:
                            queue.append(other)
            self._distances[target] = found
        return self._distances[target]


def address(node: int) -> int:
    """Return ns-3's IPv4 address of a node: 11.x.y.1, with the node's number in x and y."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def mixed(*words: int) -> tuple[int, ...]:
    """Return 32-bit ``words`` mixed as MurmurHash3 does, independently of the seed."""
    return tuple(_rotated(k * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD for k in words)


def murmur3(key: tuple[int, ...], seed: int) -> int:
    """Return the MurmurHash3_x86_32 (Appleby) of a key of ``mixed`` words."""
    h = seed
    for k in key:
        h = _rotated(h ^ k, 13) * 5 + 0xE6546B64 & _WORD
    h ^= 4 * len(key)
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    return h ^ h >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


_Matrix = tuple[tuple[int, ...], ...]

_M1, _M2 = 4294967087, 4294944443
_A1: _Matrix = ((0, 1, 0), (0, 0, 1), (_M1 - 810728, 1403580, 0))
_A2: _Matrix = ((0, 1, 0), (0, 0, 1), (_M2 - 1370589, 0, 527612))
_SEED: _Matrix = ((1,), (1,), (1,))
_STREAM, _SUBSTREAM = 127, 76  # how many draws lie between two of them, as powers of two
_MADE_BEFORE = 2
_MADE_PER_NODE = 9


class MarkingDraws:
    """The random numbers in [0, 1) by which switches mark packets; a call returns ``n`` of them."""

    def __init__(self, n_nodes: int, run: int) -> None:
        made = _MADE_BEFORE + _MADE_PER_NODE * n_nodes
        self._states = *_start(_A1, made, run, _M1), *_start(_A2, made, run, _M2)

    def __call__(self, n: int) -> Floats:
        draws = np.empty(n)
        _draw(*self._states, draws)
        return draws


def _start(a: _Matrix, made: int, run: int, m: int) -> tuple[Longs, Longs]:
    """Return the initial state of the next random stream, and the matrix to the stream after it."""
    stream = _power(a, 1 << _STREAM, m)
    state = _product(_power(a, run << _SUBSTREAM, m), _SEED, m)
    state = _product(_power(stream, made, m), state, m)
    return np.array(state, np.int64).ravel(), np.array(stream, np.int64)


@cache
def _power(a: _Matrix, exponent: int, m: int) -> _Matrix:
    if exponent == 0:
        return ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    half = _power(a, exponent // 2, m)
    square = _product(half, half, m)
    return _product(square, a, m) if exponent % 2 else square


def _product(a: _Matrix, b: _Matrix, m: int) -> _Matrix:
    columns = list(zip(*b, strict=True))
    return tuple(
        tuple(sum(x * y for x, y in zip(row, column, strict=True)) % m for column in columns)
        for row in a
    )


@kernel
def _advance(state: Longs, by: Longs, m: int) -> None:
    """Multiply the vector ``state`` by the matrix ``by`` in place, modulo ``m`` < 2^32."""
    modulus = np.uint64(m)
    x, y, z = np.uint64(state[0]), np.uint64(state[1]), np.uint64(state[2])
    for i in range(3):
        # Each product is below 2^64, and so is the sum of three remainders.
        one = np.uint64(by[i, 0]) * x % modulus
        two = np.uint64(by[i, 1]) * y % modulus
        three = np.uint64(by[i, 2]) * z % modulus
        state[i] = (one + two + three) % modulus


@compiled
def _draw(s: Longs, next_s: Longs, t: Longs, next_t: Longs, draws: Floats) -> None:
    """Write the first random number of each of the next streams into ``draws``."""
    for i in range(len(draws)):
        p1 = (1403580 * s[1] - 810728 * s[0]) % _M1
        p2 = (527612 * t[2] - 1370589 * t[0]) % _M2
        draws[i] = (p1 - p2 if p1 > p2 else p1 - p2 + _M1) * 2.328306549295727688e-10
        _advance(s, next_s, _M1)
        _advance(t, next_t, _M2)


_SECOND = 10**9  # ticks
_IP_UDP_SEQUENCE = 20 + 8 + 6
_RESERVE, _RESUME_BELOW, _SHIFT = 4096, 3072, 3
_FIRST_PORT, _TARGET_PORT = 10000, 100
_TRANSPORTS: dict[int, type[Transport]] = {1: Dcqcn, 3: Hpcc, 7: Timely, 8: Dctcp, 12: Static}


class Build(StrEnum):
    """The build of the simulator whose behaviour is reproduced.

    ``ASIS``: as shipped with ASTRA-sim. ``RESTORED``: as written by HPCC's authors. ASTRA-sim's
    build has a link header of 2 bytes instead of 14, loses the sending times of TIMELY's data, and
    its network cards also wait for queue pairs that have nothing left to send.
    """

    ASIS = "asis"
    RESTORED = "restored"


@dataclass(frozen=True)
class Topology:
    """A network of ns-3, by numbers of nodes; nodes that are not switches are hosts."""

    n_nodes: int
    switches: tuple[int, ...]
    links: tuple[tuple[int, int, int, int], ...]  # node, node, bits/s, ns


@dataclass(frozen=True)
class Scenario:
    """A recorded run: a network, its flows, and the simulator's configuration."""

    topology: Topology
    # Source, target, bytes, start in ns, and the flows that must end first.
    flows: Sequence[tuple[int, int, int, int, Sequence[int]]]
    config: Mapping[str, Any]  # keys of the simulator's file


def simulate_scenario(
    scenario: Scenario, mode: int, *, window: bool, build: Build = Build.ASIS, run: int = 1
) -> PacketRun:
    """Return the flows and ports of a scenario, simulated as ns-3 does; times are nanoseconds.

    ``mode`` is CC_MODE, ``window`` HAS_WIN, ``run`` the run number of ns-3's random streams.

    Raises :class:`DimsweepError` for another mode, and for headroom that exceeds the buffers: there
    the simulator computes with a wrapped number.
    """
    if mode not in _TRANSPORTS:
        raise DimsweepError(
            f"CC_MODE {mode} is not simulated",
            hint=f"simulated: {', '.join(map(str, _TRANSPORTS))}",
            code="unsupported",
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
    """Return a rate in bits/s from text such as ``50Mb/s``."""
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
    """Return a port of a switch; its headroom is three times the bytes in flight on the link.

    Ports faster than the hosts' ports have more headroom.
    """
    node, to, rate, delay = end
    if rate not in markings:
        raise DimsweepError(
            f"KMIN_MAP, KMAX_MAP and PMAX_MAP have no threshold for {rate} bit/s",
            where=f"link {node} - {to}",
            hint=f"known: {', '.join(map(str, markings))}",
            code="missing",
        )
    shift, faster = _SHIFT, rate
    while faster > host_rate and shift > 0:
        shift, faster = shift - 1, faster // 2
    headroom = rate * delay // 8 // 10**9 * 3
    return Port(node, to, rate, delay, markings[rate], headroom, shift)


def _markings(config: Mapping[str, Any]) -> dict[int, Marking]:
    """Return the ECN marking of each port rate; thresholds are in units of 1,000 bytes."""
    start, full, most = (_map(config[key]) for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"))
    return {
        rate: Marking(int(start[rate] * 1000), int(full[rate] * 1000), most[rate])
        for rate in start.keys() & full.keys() & most.keys()
    }


def _map(text: str) -> dict[int, float]:
    """Return the values by rate in ``2 25000000000 100 100000000000 400``: a count, then pairs."""
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
