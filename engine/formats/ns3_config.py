"""``config.txt`` of HPCC's ns-3, and SimAI's ``SimAI.conf``: keys and values, as a packet model.

Keys and their meanings: ``simulation/mix/config_doc.txt`` of
alibaba-edu/High-Precision-Congestion-Control.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dimsweep.engine.cluster.packets import Mark
from dimsweep.engine.cluster.transports import TRANSPORTS, Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.ns3 import parse_rate
from dimsweep.engine.formats.words import Line, read_lines

_PINT = 10  # CC_MODE of HPCC-PINT
_MODES = {1: "dcqcn", 3: "hpcc", 7: "timely", 8: "dctcp"}  # others: static
_US, _KB, _MB = 10**6, 1000, 2**20  # ps; bytes
# The key of the file for each key of a transport; times are us.
_ADD = {"add": "RATE_AI", "add_fast": "RATE_HAI", "least": "MIN_RATE"}
_KEYS: dict[str, dict[str, str]] = {
    "dcqcn": {
        "gain": "EWMA_GAIN",
        "alpha_every": "ALPHA_RESUME_INTERVAL",
        "cut_every": "RATE_DECREASE_INTERVAL",
        "raise_every": "RP_TIMER",
        "recoveries": "FAST_RECOVERY_TIMES",
        **_ADD,
    },
    "hpcc": {
        "eta": "U_TARGET",
        "add": "RATE_AI",
        "least": "MIN_RATE",
        "stages": "MI_THRESH",
        "react_fast": "FAST_REACT",
    },
    "timely": _ADD,
    "dctcp": {"gain": "EWMA_GAIN", "add": "DCTCP_RATE_AI", "least": "MIN_RATE"},
    "static": {},
}
_TIMES = ("ALPHA_RESUME_INTERVAL", "RATE_DECREASE_INTERVAL", "RP_TIMER")
_RATES = ("RATE_AI", "RATE_HAI", "MIN_RATE", "DCTCP_RATE_AI")
_SHARES = ("EWMA_GAIN", "U_TARGET")
_COUNTS = ("FAST_RECOVERY_TIMES", "MI_THRESH")
_READ = (
    *("CC_MODE", "HAS_WIN", "FAST_REACT", "PACKET_PAYLOAD_SIZE", "BUFFER_SIZE"),
    *("KMIN_MAP", "KMAX_MAP", "PMAX_MAP", *_TIMES, *_RATES, *_SHARES, *_COUNTS),
)
# The only values that are simulated, of keys that nothing here can change.
_SIMULATED = {
    "ENABLE_QCN": "1",
    "CLAMP_TARGET_RATE": "0",
    "ERROR_RATE_PER_LINK": "0",
    "L2_ACK_INTERVAL": "1",
    "GLOBAL_T": "0",
    "VAR_WIN": "1",
    "MULTI_RATE": "0",
    "SAMPLE_FEEDBACK": "0",
    "RATE_BOUND": "1",
    "ACK_HIGH_PRIO": "0",
    "LINK_DOWN": "0 0 0",
}
# Keys that change no result here: files, what is recorded, how precisely HPCC's telemetry is
# written, how lost packets are sent again (none is lost), and keys that ns-3 does not use.
_IDLE = (
    *("TOPOLOGY_FILE", "FLOW_FILE", "TRACE_FILE", "TRACE_OUTPUT_FILE", "FCT_OUTPUT_FILE"),
    *("PFC_OUTPUT_FILE", "QLEN_MON_FILE", "BW_MON_FILE", "RATE_MON_FILE", "CNP_MON_FILE"),
    *("ENABLE_TRACE", "TRACE_NODE", "QLEN_MON_START", "QLEN_MON_END", "MON_START", "MON_END"),
    *("QP_MON_INTERVAL", "QLEN_MON_INTERVAL", "BW_MON_INTERVAL", "SIMULATOR_STOP_TIME"),
    *("INT_MULTI", "PINT_LOG_BASE", "PINT_PROB", "L2_CHUNK_SIZE", "L2_BACK_TO_ZERO"),
    *("USE_DYNAMIC_PFC_THRESHOLD", "PAUSE_TIME", "DATA_RATE", "LINK_DELAY"),
    "NIC_TOTAL_PAUSE_TIME",
)


class Ns3Config(NamedTuple):
    """The keys of a :class:`PacketModel` that a file gives, and the lines without effect."""

    packets: dict[str, Any]
    ignored: tuple[str, ...]


def read_ns3_config(path: Path) -> Ns3Config:
    """Return the packet model in a configuration of HPCC's or SimAI's ns-3.

    CC_MODE chooses the transport, whose keys follow.  Marking thresholds are given for each rate.
    ``ignored`` has the lines that are not simulated: unknown keys, and known ones of another value
    than the one that is.  Raises :class:`DimsweepError` naming file and line for anything
    malformed, keys that occur twice, HPCC-PINT, and a file without CC_MODE.
    """
    lines = dict[str, Line]()
    for line in read_lines(path, "configuration"):
        key, *values = line.words
        comment = next((i for i, word in enumerate(values) if word.startswith("{")), len(values))
        if key in lines:
            raise line.wrong(f"{key} is there twice", f"see {lines[key].where}")
        lines[key] = Line([key, *values[:comment]], line.where)
    if "CC_MODE" not in lines:
        hint = "config.txt of HPCC's ns-3, or SimAI.conf"
        raise DimsweepError("CC_MODE is missing", where=str(path), hint=hint)
    packets: dict[str, Any] = {"transport": _transport(lines), **dict(_sizes(lines))}
    if "HAS_WIN" in lines:
        packets["window"] = bool(lines["HAS_WIN"].whole(1, "HAS_WIN", 0, 1))
    if marks := _marks(lines):
        packets["marks"] = marks
    return Ns3Config(packets, tuple(_ignored(lines)))


def _transport(lines: Mapping[str, Line]) -> Transport:
    mode = lines["CC_MODE"].whole(1, "CC_MODE", 0, 1 << 16)
    if mode == _PINT:
        raise lines["CC_MODE"].wrong("HPCC-PINT is not simulated", "3: HPCC")
    kind = _MODES.get(mode, "static")
    keys = {name: _value(key, lines[key]) for name, key in _KEYS[kind].items() if key in lines}
    try:
        return TRANSPORTS[kind](**keys)
    except DimsweepError as error:
        raise lines[_KEYS[kind][error.where]].wrong(error.what, error.hint) from None


def _value(key: str, line: Line) -> float | int | bool:
    if key in _RATES:
        return parse_rate(line.words[1] if len(line.words) > 1 else "", line.where)
    if key in _TIMES:
        return round(line.number(1, key, 1e9) * _US)
    if key in _SHARES:
        return line.number(1, key, 1)
    if key == "FAST_REACT":
        return bool(line.whole(1, key, 0, 1))
    return line.whole(1, key, 0, 10**6)


def _sizes(lines: Mapping[str, Line]) -> Iterator[tuple[str, int]]:
    for name, key, unit in (("payload", "PACKET_PAYLOAD_SIZE", 1), ("buffer", "BUFFER_SIZE", _MB)):
        if key in lines:
            yield name, unit * lines[key].whole(1, key, 1, 2**20)


def _marks(lines: Mapping[str, Line]) -> tuple[Mark, ...]:
    """Return the thresholds of each rate that all three maps have."""
    maps = [_map(lines[key]) for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP") if key in lines]
    if len(maps) < 3:
        return ()
    low, high, most = maps
    marks = list[Mark]()
    for rate in low:
        if rate in high and rate in most:
            try:
                marks.append(Mark(rate, low[rate] * _KB, high[rate] * _KB, most[rate]))
            except DimsweepError as error:
                raise lines["KMIN_MAP"].wrong(f"{rate} bit/s: {error.what}") from None
    return tuple(marks)


def _map(line: Line) -> dict[int, float]:
    """Return the values of a map ``N RATE VALUE RATE VALUE ...`` by rate (bits/s)."""
    n = line.whole(1, "the number of rates", 0, 1000)
    if len(line.words) != 2 + 2 * n:
        raise line.wrong(f"{n} rates are promised, and {len(line.words) - 2} words follow")
    places = range(2, len(line.words), 2)
    return {line.whole(i, "a rate", 1, 10**15): line.number(i + 1, "a value", 1e9) for i in places}


def _ignored(lines: Mapping[str, Line]) -> Iterator[str]:
    """Yield the lines that change a result there, and none here."""
    for key, line in lines.items():
        text = " ".join(line.words)
        if key in _SIMULATED:
            if not _is_equal(line.words[1:], _SIMULATED[key].split()):
                yield f"{text} (simulated is {_SIMULATED[key]})"
        elif key not in _READ and key not in _IDLE:
            yield f"{text} (an unknown key)"


def _is_equal(words: list[str], simulated: list[str]) -> bool:
    """Return whether words are the same numbers."""
    try:
        return list(map(float, words)) == list(map(float, simulated))
    except ValueError:
        return False
