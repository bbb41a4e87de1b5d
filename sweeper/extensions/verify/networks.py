"""Compare published part counts, path lengths and all-to-all times with generated networks."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import click

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    Group,
    NetworkModel,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.cluster import product_bill
from dimsweep.engine.formats import read_table
from dimsweep.engine.network import (
    Amount,
    Cabling,
    Kind,
    Network,
    Part,
    PartKind,
    PriceList,
    Routing,
    measure_path_lengths,
)
from dimsweep.engine.network.generators import (
    BCube,
    DragonflyNetwork,
    Generator,
    Hpn,
    RailOnly,
    Roft,
    ZCube,
)
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Value,
    find_recorded,
    json_option,
    run_verification,
    within_amount,
)

_SOURCE = "Yan et al., From ATOP to ZCube, SIGCOMM 2025"
_PARTS = ("switches", "radix", "copper", "fibre", "optics", "nic_ports")
_LENGTHS = ("apl", "apl_fail", "aps_1e-4", "apl_star", "apl_star_fail", "aps_star_1e-4")
_DIGITS = 5  # printed after the point; stretches are computed from the printed digits
_PRICED = "a public spreadsheet of H100 clusters, August 2024"
_SERVER = 8  # NPUs of a star, or of a node
_BITS = 1e9 / 8
# Total Gb/s of the ports of the largest switch, by the number of NPUs (section 7 of the source).
_SWITCHES = {256: 6_400, 1_024: 12_800, 4_096: 25_600, 16_384: 51_200}
# HPN's published path lengths at 4,096 NPUs are for the leaves of the next scale, of radix 256.
_LARGER = {("HPN", 4_096): 16_384}
# The source says latencies, servers and ECMP of its simulations.  That a port has 200 Gb/s and a
# switch 32 of them is assumed, and that 64 MB are what a GPU sends and keeps.
_SIMULATED = {
    "bandwidth": 200 * _BITS,
    "latency": 5_000_000,
    "server": _SERVER,
    "nvlink": 450e9,
    "nvlink_latency": 1_000_000,
}
_LEFT_OUT = "assumed: 200 Gb/s a port, 32 a switch, 64 MB a GPU, one flow a pair, no PXN"
_SERVERS = "how servers were placed there is not said"
_ALL_TO_ALL = re.compile(r"all_to_all_(?P<size>\d+)MB")
# Parts of the priced clusters: rails of 400 Gb/s on switches of 64 ports.
_PORT = 400 * _BITS
_QUANTUM = PriceList(
    (
        Part("QM9700", PartKind.SWITCH, ports=64, bandwidth=_PORT, price=Amount(36_000)),
        Part("ConnectX-7", PartKind.NIC, bandwidth=_PORT, price=Amount(0)),
        Part("NDR", PartKind.CABLE, medium="copper", length=3.0, price=Amount(0)),
    ),
    (("node", Cabling("")), ("pod", Cabling("copper", 3.0))),
)
_CUBE = re.compile(r"(?P<name>BCube|ZCube)\((?P<n>\d+),\s*(?P<k>\d+)\)(?P<partial>-partial)?")

Row = Mapping[str, str]


def compare(folder: Path) -> Iterator[Value]:
    """Yield the points of all tables in a folder; the kind of a table follows from its columns.

    Raises :class:`DimsweepError` naming file and line for an unknown network or an invalid number,
    and for a folder without tables.
    """
    found = False
    for file in sorted(folder.glob("*.csv")):
        for place, row, points in _read_rows(file):
            found = True
            try:
                yield from points(row)
            except DimsweepError as error:
                raise error.in_place(place) from None
            except ValueError as error:
                hint = "counts and lengths are numbers"
                raise DimsweepError(str(error), where=place, hint=hint, code="wrong-type") from None
    if not found:
        columns = "nodes, gpus and switches; or "
        columns += f"gpus, topology, and {', '.join(_PARTS[:3])} or {', '.join(_LENGTHS[:2])}"
        problem, hint = "no table of counts or path lengths", f"a CSV file with columns {columns}"
        raise DimsweepError(problem, where=str(folder), hint=hint, code="missing")


def _read_rows(file: Path) -> Iterator[tuple[str, Row, Callable[[Row], Iterable[Value]]]]:
    """Yield the rows of a table with their comparison function; none for other columns."""
    rows = read_table(file, ())
    if rows and (points := _choose_comparison(set(rows[0][1]))):
        yield from ((place, row, points) for place, row in rows)


def _choose_comparison(columns: set[str]) -> Callable[[Row], Iterable[Value]] | None:
    """Return the comparison function for rows of a table with these columns, or None."""
    if {"gpus", "topology"} <= columns:
        if {"case", "ns3", "unit"} <= columns:
            return _compare_flows
        return (
            _compare_path_lengths
            if columns & set(_LENGTHS)
            else _compare_counts
            if columns & set(_PARTS)
            else None
        )
    return _compare_clusters if {"nodes", "gpus", "switches"} <= columns else None


def _compare_counts(row: Row) -> Iterator[Value]:
    network = build_generator(
        row["topology"], int(row["gpus"]), _parse_optional(row, "radix"), row
    ).build()
    ours = count_parts(network)
    for name in _PARTS:
        if row.get(name):
            point = f"{row['topology']}, {row['gpus']}: {name}"
            yield Value(point, float(row[name]), ours[name], within_amount(0), _SOURCE)


def count_parts(network: Network) -> Mapping[str, int]:
    """Count the parts of a network.

    Returns switches with cables, their largest radix, cables by medium, transceivers, and the
    cabled ports of an NPU.
    """
    cables, at = Counter[str](), Counter[int | str]()
    for link in network.cables():
        if link.medium:
            cables[link.medium] += link.lanes
            at.update({link.source: link.lanes, link.target: link.lanes})
    switches = [node for node in at if network.devices[node].kind is Kind.SWITCH]
    return {
        "switches": len(switches),
        "radix": max((network.devices[node].ports or at[node] for node in switches), default=0),
        "copper": cables["copper"],
        "fibre": cables["fibre"],
        "optics": 2 * cables["fibre"],
        "nic_ports": max((n for node, n in at.items() if isinstance(node, int)), default=0),
    }


def _compare_clusters(row: Row) -> Iterator[Value]:
    """Yield the number of switches of a cluster of nodes of 8 NPUs, each NPU on a rail.

    The rails are the smallest fat trees.  Two nodes are cabled directly, without switches.
    """
    nodes, npus = int(row["nodes"]), int(row["gpus"])
    block = "FullyConnected" if nodes == 2 else "Switch"
    topology = Topology.build(
        f"Switch({_SERVER})_{block}({nodes})",
        bandwidth=[9 * _PORT, _PORT],
        latency=[0, 0],
        tiers=["node", "pod"],
    )
    bill = product_bill(topology, (), _QUANTUM)
    if bill.missing:
        raise DimsweepError(bill.missing[0], where="nodes", code="missing")
    ours = bill.count(PartKind.SWITCH)
    whole = npus == _SERVER * nodes
    note = "" if whole else f"{npus / _SERVER:,.1f} nodes there, switches in proportion"
    point = f"H100, {npus} in nodes of {_SERVER}: switches"
    yield Value(point, float(row["switches"]), ours, within_amount(0), _PRICED, note=note)


def _compare_flows(row: Row) -> Iterator[Value]:
    """Yield the time of an all-to-all simulated as flows, with ECMP and spraying.

    Other workloads are skipped.
    """
    case = _ALL_TO_ALL.fullmatch(row["case"])
    if case is None or row["unit"] != "ms":
        return
    npus = int(row["gpus"])
    made = replace(build_generator(row["topology"], npus, 32, row), **_SIMULATED)  # type: ignore[arg-type]
    network = made.build()
    work = Collective(CollectiveKind.ALL_TO_ALL, int(case["size"]) * 1e6, "all")
    topology = Topology.build(f"FullyConnected({npus})", bandwidth=[1e9], latency=[0])
    workload = Workload.of_one(work, Group((npus,), (1,)))
    for routing, how in ((Routing.ECMP, ""), (Routing.SPRAY, ", sprayed")):
        placement = tuple(range(npus)) if network.n_npus > npus else ()
        on = NetworkModel(graph=network, routing=routing, placement=placement)
        cluster = Cluster(topology, collectives=CollectiveModel(chunks=1), network=on)
        ours = simulate(workload, cluster, fidelity="flow").time * 1e3
        point = f"{row['topology']}, {npus}: {row['case']}, ns-3{how}"
        yield Value(point, float(row["ns3"]), ours, None, _SOURCE, "ms", _LEFT_OUT)


def _compare_path_lengths(row: Row) -> Iterator[Value]:
    radix = _parse_optional(row, "radix")
    network = build_generator(row["topology"], int(row["gpus"]), radix, row, spread=True).build()
    for star, servers in (("", 1), ("_star", _SERVER)):
        names = f"apl{star}", f"apl{star}_fail", f"aps{star}_1e-4"
        if not any(row.get(name) for name in names):
            continue
        lengths = measure_path_lengths(network, servers)
        mean, failed = round(lengths.mean, _DIGITS), round(lengths.failed, _DIGITS)
        ours = mean, failed, round(1e4 * (failed / mean - 1), _DIGITS)
        for name, value in zip(names, ours, strict=True):
            if row.get(name):
                point = f"{row['topology']}, {row['gpus']}: {name}"
                allowed = within_amount(0.5 * 10**-_DIGITS)
                found = Value(point, float(row[name]), value, allowed, _SOURCE)
                yield found if found.holds or not star else replace(found, note=_SERVERS)


def build_generator(
    topology: str, npus: int, radix: int | None, row: Row, *, spread: bool = False
) -> Generator:
    """Return the generator of a network by the source's name.

    The default ``radix`` is that of the largest switch at the scale. A dragonfly is the smallest
    balanced one with enough NPUs. The source's path lengths of Rail-only, but not its counts, are
    from a network in which each uplink of a leaf leads to a separate spine (``spread``).
    """
    port = float(row.get("port_gbps") or (200 if topology.startswith("HPN") else 400))
    kind = topology.split(" (")[0]
    if kind in ("ROFT", "Rail-only", "HPN"):
        ports = radix or _find_radix(_LARGER.get((kind, npus), npus), port)
        at = port * _BITS
        if kind == "HPN":
            return Hpn(npus=npus, radix=ports, bandwidth=at)
        if kind == "ROFT":
            return Roft(npus=npus, radix=ports, bandwidth=at)
        return RailOnly(npus=npus, radix=ports, bandwidth=at, spread=spread)
    if kind == "Dragonfly":
        hosts = next(p for p in range(1, npus + 1) if 2 * p * p * (2 * p * p + 1) >= npus)
        return DragonflyNetwork(hosts=hosts)
    cube = _CUBE.fullmatch(topology)
    if cube is None:
        hint = "ROFT, Rail-only, HPN, Dragonfly, BCube(n,k), ZCube(n,k) or ZCube(n,k)-partial"
        problem = f"unknown network {topology!r}"
        raise DimsweepError(problem, where="topology", hint=hint, code="unknown-name")
    n, k = int(cube["n"]), int(cube["k"])
    if cube["name"] == "BCube":
        return BCube(n=n, k=k)
    copies = None if npus == n**k else max(1, npus // n ** (k - 1))
    return ZCube(n=n, k=k, partial=bool(cube["partial"]), copies=copies)


def _find_radix(npus: int, port: float) -> int:
    if npus not in _SWITCHES:
        hint = f"add the column radix, or use {', '.join(map(str, _SWITCHES))} NPUs"
        problem = f"the radix at {npus} NPUs is unknown"
        raise DimsweepError(problem, where="gpus", hint=hint, code="missing")
    return round(_SWITCHES[npus] / port)


def _parse_optional(row: Row, name: str) -> int | None:
    return int(row[name]) if row.get(name) else None


@click.command("networks")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Tables of the same columns; the recorded ones unless given.",
)
@json_option
def command(data: Path | None, as_json: bool) -> int:
    """Compare counts of parts, and path lengths, of published networks with generated ones.

    Counts must be equal: switches, their radix, copper and fibre cables, transceivers, ports of an
    NPU. Mean path lengths, of the intact network and without one switch, must equal the printed
    digits; two switches of each equivalence class are removed in turn, and all if these two differ.
    The exit code is 1 if any value differs.

    Tables are recognised by their columns: gpus, topology, and some of switches, radix, copper,
    fibre, optics, nic_ports (counts), or of apl, apl_fail, aps_1e-4, apl_star, apl_star_fail,
    aps_star_1e-4 (path lengths); nodes, gpus, switches (clusters of nodes of eight NPUs, with a
    rail for each NPU on switches of 64 ports); or gpus, topology, case, ns3, unit (all-to-alls as
    flows, which are not judged).


    \b
    Example:
      dimsweep verify networks --data tests/golden/networks
    """
    folder = data or find_recorded("networks", "--data")
    return run_verification("networks", lambda: Findings([*compare(folder)]), as_json=as_json)
