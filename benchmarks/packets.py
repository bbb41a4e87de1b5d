"""The packet kernel: packets a second, beside ns-3's and htsim's recorded CPU time."""

import gc
import json
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import Any

from dimsweep.engine.kernels.packet import Fabric, Flow, Marking, Port, Settings, simulate_packets
from dimsweep.sweeper.extensions.ns3_rdma.verify import Compared, read_cases

_GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "roce"
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "golden" / "roce"
_LEAST = 0.1  # CPU seconds that ns-3 took: shorter ones are rounded to 10 ms
_REPEATS = 3
_HTSIM = {"roce_ecmp": "static", "hpcc_ecmp": "hpcc"}
_RATE, _DELAY = 100 * 10**9, 10**6  # bits a second, and picoseconds: of all of htsim's links


def main() -> None:
    """Print the speed on the longer recorded runs of ns-3 (-O2) and htsim, on a loaded machine."""
    folder, least = (_BESIDE, _LEAST) if _BESIDE.is_dir() else (_GOLDEN, 0.0)
    totals: dict[str, Compared] = defaultdict(Compared)
    for case in read_cases(folder):
        long = case.line["out"]["run_cpu_s"] >= least
        if long and case.line["build"] == "restored" and not case.left_out:
            quickest = min((case.simulate() for _ in range(_REPEATS)), key=lambda run: run.cpu)
            for key in (case.line["variant"], "all"):
                totals[key].add(case, quickest)
    for variant, total in sorted(totals.items()):
        print(
            f"{variant:13} {total.packets:10,.0f} packets: {total.packets / total.cpu:10,.0f} a "
            f"second, {total.recorded_cpu / total.cpu:5.1f} times ns-3"
        )
    if (folder / "htsim.jsonl").exists():
        beside_htsim(folder / "htsim.jsonl")


def beside_htsim(file: Path) -> None:
    """Print CPU seconds, set-up included on both sides, on htsim's fat trees with its flows.

    Alike are the topology, rates, latencies, flows and sizes of packets.  Unlike are where hashes
    lead (ways are drawn), headers, thresholds, and what htsim's transports do beside the two.
    """
    cases = [json.loads(line) for line in file.read_text().splitlines()]
    cases = [case for case in cases if case["rc"] == 0 and case["cpu_s"] >= _LEAST / 2]
    for case in cases:
        _, scheme, mtu = case["id"].split("/")
        if scheme not in _HTSIM:
            continue
        payload = int(mtu.removeprefix("mtu"))
        transport = _HTSIM[scheme]
        simulate_fat_tree(4, [(0, 15, 1)], transport, payload)  # compiled, or read from disk
        flows = [(source, target, size) for source, target, size, _ in case["flows"]]
        gc.collect()  # what earlier cases have left is not for this one to clear away
        started = process_time()
        last = simulate_fat_tree(round((4 * case["nodes"]) ** (1 / 3)), flows, transport, payload)
        cpu = process_time() - started
        packets = sum(-(-size // payload) for *_, size in flows)
        print(
            f"{case['id']:33} {packets:8,} packets: {packets / cpu:10,.0f} a second, "
            f"{case['cpu_s'] / cpu:5.1f} times htsim; the last flow takes {last / 10**6:,.0f} us, "
            f"htsim's {case['fct_us_max']:,.0f} us"
        )


def simulate_fat_tree(
    k: int, flows: Iterable[tuple[int, int, int]], transport: str, payload: int
) -> int:
    """Send (source, target, bytes) over switches of ``k`` ports; ps until the last one arrives."""
    settings, draw = Settings(transport=transport, payload=payload), random.Random(0)
    tx = 8 * (payload + settings.data_header) * 10**12 // _RATE
    sent = []
    for source, target, size in flows:
        way, back = _way(k, source, target, draw), _way(k, target, source, draw)
        round_trip = 2 * (len(way) - 1) * (_DELAY + tx)
        window = round_trip * _RATE // (8 * 10**12)
        options: dict[str, Any] = {}
        if transport != "static":
            options = {"window": window, "round_trip": round_trip}
        sent.append(Flow(size, way, back, **options))
    run = simulate_packets(_fat_tree(k), sent, settings)
    return int(run.arrivals.max())


def _fat_tree(k: int) -> Fabric:
    """Al-Fares et al. (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches."""
    half = k // 2
    n_hosts, links = k * half * half, list[tuple[int, int]]()
    for pod in range(k):
        for i in range(half):
            edge = _switch(k, 0, pod, i)
            links += [((pod * half + i) * half + host, edge) for host in range(half)]
            links += [(edge, _switch(k, 1, pod, j)) for j in range(half)]
            links += [(_switch(k, 1, pod, i), _switch(k, 2, i, j)) for j in range(half)]
    marking, headroom = Marking(400_000, 1_600_000, 0.2), 3 * _RATE * _DELAY // (8 * 10**12)
    ports = []
    for a, b in links:
        for end in ((a, b), (b, a)):
            if end[0] < n_hosts:
                ports.append(Port(*end, _RATE, _DELAY))
            else:
                ports.append(Port(*end, _RATE, _DELAY, marking, headroom))
    switches = {a for link in links for a in link if a >= n_hosts}
    return Fabric(ports, dict.fromkeys(sorted(switches), 32 << 20))


def _switch(k: int, level: int, group: int, number: int) -> int:
    half = k // 2
    return k * half * half + level * k * half + group * half + number


def _way(k: int, source: int, target: int, draw: random.Random) -> tuple[int, ...]:
    """A shortest way, one of them all with the same probability."""
    half = k // 2
    (pod, edge), (other_pod, other_edge) = (divmod(host // half, half) for host in (source, target))
    up, down = _switch(k, 0, pod, edge), _switch(k, 0, other_pod, other_edge)
    if up == down:
        return (source, up, target)
    i, j = draw.randrange(half), draw.randrange(half)
    over, under = _switch(k, 1, pod, i), _switch(k, 1, other_pod, i)
    if pod == other_pod:
        return (source, up, over, down, target)
    return (source, up, over, _switch(k, 2, i, j), under, down, target)
