"""Quantities that were perhaps meant in another unit."""

import re

from dimsweep.engine import Program, units
from dimsweep.sweeper.config.parts.part import walk
from dimsweep.sweeper.config.schema import Config

_WIDEST, _NARROWEST = 10e12, 0.1e9  # bytes/s of an NPU in a dimension that some product has
_LONGEST_HOP = 10**9  # ps
_PORTS = (100, 200, 400, 800, 1600)  # Gb/s, by which ports of NICs are called
_BINARY = re.compile(r"[KMGTP]i[Bb]")
_DECIMAL = re.compile(r"[kMGTP][Bb]")
_BITS = re.compile(r"\s*[\d.]+(\s*[kMGTP]i?|\s+)b\s*")


def odd_quantities(config: Config, program: Program, *, searched: bool) -> list[str]:
    """Suspicions about the units of bandwidths, latencies and sizes; ``searched``: the topology's
    bandwidths are not used."""
    found = [] if searched else _bandwidths(config, program)
    found += _mixed(config, searched=searched)
    for d, latency in enumerate(program.latency):
        if latency > _LONGEST_HOP:
            found.append(
                f"topology.latency: {units.format_time(int(latency))} a hop in dimension "
                f"{program.names.dims[d]}, which is longer than any network's"
            )
    found += [
        f"{key}: {value} is bits; bytes are written with a B"
        for key, value in walk(config.text["workload"], "workload")
        if isinstance(value, str) and _BITS.fullmatch(value)
    ]
    return found


def _bandwidths(config: Config, program: Program) -> list[str]:
    found = []
    for d, value in enumerate(program.bandwidth.tolist()):
        what = f"topology.bandwidth: {units.format_bandwidth(value)} per NPU in dimension "
        what += program.names.dims[d]
        if value > _WIDEST:
            found.append(f"{what}, more than any product has")
        elif value < _NARROWEST:
            found.append(f"{what}, less than one Ethernet port of 1 Gb/s")
        elif _looks_like_bits(config, program, d):
            bits = f"{value / 1e9:g} Gb/s"
            found.append(f"{what}: NICs are called by their bits; is it {bits}?")
    return found


def _looks_like_bits(config: Config, program: Program, d: int) -> bool:
    """Whether a dimension that is reached through NICs has as many bytes as a NIC has bits."""
    given, dim = config.topology.bandwidth, program.cluster.topology.dims[d]
    tier = config.cost.tiers.get(dim.tier)
    if not isinstance(given, tuple) or tier is None or tier.nic is None:
        return False
    return "nic" in dim.block.parts and any(given[d].text == f"{n} GB/s" for n in _PORTS)


def _mixed(config: Config, *, searched: bool) -> list[str]:
    """Bandwidths of one network written with 1000s and with 1024s."""
    given = ["topology.bandwidth"]
    if searched:
        given = [f"space.bandwidth.{key}" for key in ("total", "max", "known", "constraints")]
    values = {key: config.value(key) for key in given}
    found = [*values.items(), *(each for key, value in values.items() for each in walk(value, key))]
    written = [(at, text) for at, text in found if isinstance(text, str)]
    binary = [text for text in written if _BINARY.search(text[1])]
    decimal = [text for text in written if _DECIMAL.search(text[1]) and text not in binary]
    if not binary or not decimal:
        return []
    return [
        f"{binary[0][0]}: {binary[0][1]} counts in 1024s, {decimal[0][1]} "
        f"({decimal[0][0]}) in 1000s; 1 GiB/s is 7.4 % more than 1 GB/s"
    ]
