"""Set up and enlarge the tables of a run of the packet kernel, and register transports.

Transports add their fields to the records of flows and keys (settings).
"""

import dataclasses
import inspect
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from dimsweep.engine.cluster.transports import TRANSPORTS, Transport
from dimsweep.engine.kernels.core import queues
from dimsweep.engine.kernels.core.agenda import enlarge_agenda, new_agenda
from dimsweep.engine.kernels.core.compiling import UNUSED
from dimsweep.engine.kernels.core.queues import EDGE
from dimsweep.engine.kernels.core.tables import NONE, grow_table, view_as_bytes, zeros
from dimsweep.engine.kernels.packet import state
from dimsweep.engine.kernels.packet.hooks import OF_TCP, TransportGroup, group_of
from dimsweep.engine.kernels.packet.inputs import (
    WAY,
    Fabric,
    KnownWays,
    Marking,
    Settings,
    shared_buffers,
)
from dimsweep.engine.kernels.packet.kernel import ROOM
from dimsweep.engine.kernels.packet.rud import Rud
from dimsweep.engine.kernels.packet.state import FLOW, Run, cache_line_record
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Floats, Longs, Table
from dimsweep.engine.records import new_table

_TYPES = {bool: "?", int: "i8", float: "f8"}
# Whose keys transports have in common that are of these classes.
_SHARED: dict[str, type[Any]] = {"tcp": Tcp, "rud": Rud}


def register(*transports: type[Transport]) -> None:
    """Register transport classes by name, for configurations and for the kernel.

    Raises :class:`TypeError` for one that leaves a hook or a property undefined, and
    :class:`ValueError` for a name that is taken.
    """
    for transport in transports:
        _check(transport)
        TRANSPORTS[transport.name] = transport


def _check(transport: type[Transport]) -> None:
    transport()  # Python refuses one that leaves a case open
    if "__dataclass_fields__" not in vars(transport):
        raise TypeError(f"{transport.__name__} is no frozen dataclass, whose fields are its keys")
    asked = [name for name in inspect.get_annotations(Transport) if not hasattr(transport, name)]
    if asked:
        raise TypeError(f"{transport.__name__} does not say its {', '.join(asked)}")
    if transport.speaks_tcp != issubclass(transport, Tcp):
        problem = f"{', '.join(OF_TCP)} are cases of subclasses of Tcp, which alone speak_tcp"
        raise TypeError(f"{transport.__name__}: {problem}")
    if TRANSPORTS.get(transport.name, transport) is not transport or transport.name in _SHARED:
        raise ValueError(f"there is a transport {transport.name!r} already")


def transport_number(transport: Transport) -> int:
    """Return the number of a transport among those compiled together with it."""
    return group_of(type(transport)).transports.index(type(transport))


def flow_record(transport: Transport) -> np.dtype[np.void]:
    """Return the record type of a flow, with the transport's state under the transport's name.

    The flows of a run have one transport, so the states of all transports share one memory area.
    """
    return _flow_record(group_of(type(transport)))


@cache
def _flow_record(together: TransportGroup) -> np.dtype[np.void]:
    common: Any = FLOW
    states = {each.name: np.dtype([*each.state], align=True) for each in together.transports}
    states = {name: of for name, of in states.items() if of.itemsize}
    fields = dict(common.fields) | {name: (of, common.itemsize) for name, of in states.items()}
    most = max((of.itemsize for of in states.values()), default=0)
    return cache_line_record(fields, common.itemsize + most)


def keys_record(transport: Transport) -> Table:
    """Return a record with the keys of all transports of a group, and the values of one of them.

    Keys that TCP's or RUD's transports share are under ``tcp`` and ``rud``.  A member of an
    enumeration is stored as its position.
    """
    record = np.zeros(1, _keys_record(group_of(type(transport))))
    for key, value in vars(transport).items():
        number = [*type(value)].index(value) if isinstance(value, Enum) else value
        record[transport.name][key] = number
        for name, of in _SHARED.items():
            if isinstance(transport, of) and key in of.__dataclass_fields__:
                record[name][key] = number
    return record


@cache
def _keys_record(together: TransportGroup) -> np.dtype[np.void]:
    """Return the record type of keys, with one byte whose name identifies the group's hooks."""
    names = _SHARED | {each.name: each for each in together.transports}
    fields = [(name, _record(of)) for name, of in names.items()]
    return np.dtype([*fields, (together.version or "ours", "i1")], align=True)


def _record(of: type[Any]) -> Any:
    """Return the record type of a transport's keys, or a byte if it has none."""
    types = get_type_hints(of)
    return [
        (each.name, _TYPES.get(types[each.name], "i8")) for each in dataclasses.fields(of)
    ] or "i1"


_ANY = 1 << 62  # bytes
_FIRST_PACKETS = 1 << 10
_BUCKETS = 1 << 13  # of the agenda: most events are at most some microseconds away
_FIRST_DRAWS = 1 << 12
_FIRST_NOTES = 1 << 8

Draws = Callable[[int], Floats]  # the next n random numbers of a run


def new_run(fabric: Fabric, settings: Settings, transport: Transport, draws: Draws) -> Run:
    """Return tables without flows for a checked fabric and settings; growing ones have a row."""
    carries, speaks = int(transport.telemetry), int(transport.speaks_tcp)
    unordered, credited = int(isinstance(transport, Rud)), int(transport.gives_credits)
    shared = shared_buffers(fabric, settings)
    packets, counts = zeros(_FIRST_PACKETS, state.PACKET), zeros(1, state.COUNTS)
    queues.add_free(counts["packets"][0], packets, 0)
    return Run(
        # Numba looks an enumeration's members up anew at every call, as it does a text's type.
        settings=settings._replace(transport=0, wake=int(settings.wake)),  # type: ignore[arg-type]
        agenda=new_agenda(2 * _FIRST_PACKETS, _bucket_shift(fabric, settings), _BUCKETS),
        ports=_ports(fabric, settings),
        switches=new_table(len(shared), state.SWITCH, shared=list(shared.values())),
        flows=zeros(1, flow_record(transport)),
        packets=packets,
        telemetry=zeros(_FIRST_PACKETS * carries, state.HOP, state.HOPS),
        known=zeros(carries, state.HOP, state.HOPS),
        tcp=zeros(speaks, state.TCP),
        blocks=zeros(speaks, state.BLOCK, state.SACK_BLOCKS),
        sacks=zeros(_FIRST_PACKETS * speaks, state.BLOCK, state.SACK_BLOCKS),
        rud=zeros(unordered, state.RUD if unordered else UNUSED),
        reports=zeros(_FIRST_PACKETS * unordered, state.REPORT),
        credits=zeros(credited, state.CREDITS if credited else UNUSED),
        turns=zeros(2 * credited, state.TURN),
        pacers=_pacers(len(fabric.ports) * settings.priorities * credited),
        sent_at=zeros(unordered, np.int64),
        penalties=zeros(unordered, np.uint8),
        recycled=zeros(unordered, np.uint16),
        segments=zeros(speaks | unordered, np.uint8),
        skips=zeros(speaks, np.int32),
        ways=zeros(0, WAY),
        routes=zeros(0, np.int32),
        pairs=zeros(1, np.int64),
        edges=zeros(1, EDGE),
        arrived=zeros(1, np.int64),
        acknowledged=zeros(1, np.int64),
        departing=zeros(1, np.int64),
        samples=zeros(_FIRST_NOTES, state.SAMPLE),
        pausings=zeros(_FIRST_NOTES, state.PAUSING),
        draws=draws(_FIRST_DRAWS),
        timers=zeros(state.TIMERS, np.int64),
        keys=keys_record(transport),
        transport=transport_number(transport),
        speaks_tcp=transport.speaks_tcp,
        counts=counts,
    )


def _grow_tables(run: Run, n: int, *names: str) -> Run:
    """Return the run with ``n`` rows in each of the named tables, except for unused tables."""
    tables = {name: getattr(run, name) for name in names}
    return run._replace(**{name: grow_table(of, n) for name, of in tables.items() if len(of)})


def add_flows(run: Run, flows: Table, n_after: int, known: KnownWays) -> Run:
    """Return the run with ``flows`` added, which wait for ``n_after`` flows in all."""
    counts = run.counts[0]
    first, n = int(counts["n_flows"]), int(counts["n_flows"]) + len(flows)
    counts["n_flows"] = n
    kept = ("flows", "known", "tcp", "blocks", "rud", "credits")
    notes = ("arrived", "acknowledged", "departing")
    run = _grow_tables(run, n, *kept, *notes)._replace(ways=known.table, routes=known.routes)
    run = _grow_tables(run, 2 * n, "turns")
    run = _grow_tables(run, state.TIMERS * n, "timers")
    run = _grow_tables(run, int(counts["n_edges"]) + n_after, "edges")
    run.timers[state.TIMERS * first :] = NONE
    view_as_bytes(run.flows)[first:n] = view_as_bytes(flows)
    if run.speaks_tcp:
        run = _add_segments(run, first, n)
    elif len(run.rud):
        run = _add_packets(run, first, n)
    return _add_pairs(run, run.flows["port"][first:n])


def new_flows(run: Run, flows: Table, known: KnownWays) -> Table:
    """Return records of flows that have not started (FLOW) from checked flows (TAKEN)."""
    table, way = np.zeros(len(flows), run.flows.dtype), known.table[flows["ways"]]
    for name in ("size", "window", "round_trip", "ways", "n_ways"):
        table[name] = flows[name]
    table["after"] = flows["start"]
    n, acks = run.settings.priorities, run.settings.ack_priority
    table["rank"] = n - 1 - flows["priority"]
    table["ack_rank"] = table["rank"] if acks < 0 else n - 1 - acks
    table["port"] = known.routes[way["data"]] + table["rank"]
    table["host"] = known.routes[way["ack"]] + table["ack_rank"]
    rate = run.ports["rate"][table["port"]]
    table["line_rate"] = table["rate"] = rate
    table["allowed"] = np.where(flows["window"] > 0, flows["window"], _ANY)
    for name in ("start", "arrival", "end", "followers"):
        table[name] = NONE
    return table


def _add_segments(run: Run, first: int, n: int) -> Run:
    """Add rows for TCP's state of the flows from ``first`` on, and of their segments."""
    keys, counts, new = run.keys["tcp"][0], run.counts[0], run.tcp[first:n]
    new["n_segments"] = -(-run.flows["size"][first:n] // run.settings.payload)
    ends = counts["n_segments"] + np.cumsum(new["n_segments"] + 1)  # one behind each flow's last
    new["first"] = ends - new["n_segments"] - 1
    counts["n_segments"] = ends[-1] if len(ends) else counts["n_segments"]
    new["cwnd"], new["threshold"] = keys["first_window"], np.inf
    round_trips = run.flows["round_trip"][first:n]
    rto = np.clip(3 * round_trips, keys["least_rto"], keys["most_rto"])  # R + 4 R / 2
    new["rto"] = np.where(round_trips > 0, rto, keys["first_rto"])
    for name in ("times_out_at", "timer"):
        new[name] = NONE
    return _grow_tables(run, int(counts["n_segments"]), "segments", "skips")


def _add_packets(run: Run, first: int, n: int) -> Run:
    """Add rows for RUD's state of the flows from ``first`` on, their packets and entropy values."""
    counts, new = run.counts[0], run.rud[first:n]
    new["n_packets"] = -(-run.flows["size"][first:n] // run.settings.payload)
    ends = counts["n_segments"] + np.cumsum(new["n_packets"].astype(np.int64))
    new["first"] = ends - new["n_packets"]
    new["timer"] = new["rtt"] = NONE
    counts["n_segments"] = ends[-1] if len(ends) else counts["n_segments"]
    run = _grow_tables(run, int(counts["n_segments"]), "segments", "sent_at")
    run = _grow_tables(run, n * int(run.keys["rud"]["entropies"][0]), "penalties")
    return _grow_tables(run, n * state.RECYCLED, "recycled")


def _add_pairs(run: Run, senders: Longs) -> Run:
    """Make room for the queue pairs of more flows; a port that needs more room moves to the end."""
    more = np.bincount(senders, minlength=len(run.ports))
    ports, counts = run.ports, run.counts[0]
    ports["flows"] += more
    for port in np.flatnonzero(ports["flows"] > ports["most_pairs"]):
        p = ports[port]
        first, n = int(counts["n_pairs"]), 2 * int(p["flows"])
        run = _grow_tables(run, first + n, "pairs")
        active = slice(p["first_pair"], p["first_pair"] + p["pairs"])
        run.pairs[first : first + p["pairs"]] = run.pairs[active]
        p["first_pair"], p["most_pairs"] = first, n
        counts["n_pairs"] = first + n
    return run


def enlarge_run(run: Run, draws: Draws) -> Run:
    """Return the run with twice the room in each table that is full."""
    counts, old = run.counts[0], len(run.packets)
    if counts["packets"]["left"] < ROOM:
        run = _grow_tables(run, 2 * old, "packets", "telemetry", "sacks", "reports")
        queues.add_free(counts["packets"], run.packets, old)
    run = reserve_events(run, ROOM + int(counts["n_flows"]))
    if counts["drawn"] + ROOM > len(run.draws):
        run = run._replace(draws=np.concatenate([run.draws, draws(len(run.draws))]))
    run = _grow_tables(run, int(counts["n_samples"]) + ROOM, "samples")
    return _grow_tables(run, int(counts["n_pausings"]) + ROOM, "pausings")


def reserve_events(run: Run, n: int) -> Run:
    """Return the run with room for ``n`` more events."""
    while run.agenda.counts["free"]["left"][0] < n:
        run = run._replace(agenda=enlarge_agenda(run.agenda))
    return run


def _bucket_shift(fabric: Fabric, settings: Settings) -> int:
    """Return the base-2 logarithm of the width of a calendar bucket (ticks).

    It is about a nanosecond, and wider where half of the ports need more time for the largest
    packet and its delay than all buckets span, so that few events are beyond the buckets.
    """
    bits = 8 * (settings.payload + settings.data_header) * settings.ticks
    each = sorted(bits // port.rate + port.delay for port in fabric.ports)
    typical = each[len(each) // 2] if each else 0
    return max(settings.ticks // 10**9, 2 * typical // _BUCKETS, 1).bit_length() - 1


def _pacers(n: int) -> Table:
    """Return ``n`` credit pacers of receivers' ports, which grant no credit yet."""
    table = zeros(n, state.PACER)
    table["share"], table["number"] = 1, NONE
    for name in ("wanting", "content"):
        table[name]["head"] = NONE
    return table


def _ports(fabric: Fabric, settings: Settings) -> Table:
    """Return the table of ports, with a row for each priority of each port."""
    n, order = settings.priorities, {switch: i for i, switch in enumerate(fabric.buffers)}
    numbers = {(port.node, port.to): n * i for i, port in enumerate(fabric.ports)}
    never = Marking(_ANY, _ANY, 0.0)
    columns = {
        "rate": [port.rate for port in fabric.ports],
        "delay": [port.delay for port in fabric.ports],
        "back": [numbers[port.to, port.node] for port in fabric.ports],
        "switch": [order.get(port.node, NONE) for port in fabric.ports],
        "headroom": [port.headroom for port in fabric.ports],
        "shift": [port.shift for port in fabric.ports],
        "room": [port.room for port in fabric.ports],
    }
    marks = zip(*(port.marking or never for port in fabric.ports), strict=True)
    columns |= zip(("mark_from", "mark_all", "mark_most"), map(list, marks), strict=False)
    table = zeros(n * len(fabric.ports), state.PORT)
    for name, column in columns.items():
        table[name] = np.repeat(np.array(column, state.PORT[name]), n)
    bits = 8 * settings.ack_size * settings.ticks
    table["ack_time"] = (2 * bits + table["rate"]) // (2 * table["rate"])
    for name in ("number", "wake_number"):
        table[name] = NONE
    for name in ("queue", "wire", "frames"):
        table[name]["head"] = NONE
    if settings.trims:  # headers and ACKs: twice as many bytes as data, and no marks
        table["room"][::n] *= 2
        for name in ("mark_from", "mark_all"):
            table[name][::n] = _ANY
    table["back"] += np.tile(np.arange(n, dtype=np.int32), len(fabric.ports))
    return table
