"""What became of messages in flows or packets, for the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dimsweep.engine import Result, units
from dimsweep.engine.kernels.packet import PortAccount
from dimsweep.sweeper.columns import Columns
from dimsweep.sweeper.report.words import not_exceeded
from dimsweep.sweeper.terminal import table

LINKS_SHOWN = 5


def traffic_tables(result: Result) -> Iterator[Columns]:
    """How long messages take, where packets wait, and which links are paused because of whom; only
    what there is."""
    traffic = result.traffic
    if traffic is None:
        return
    if result.completion_times:
        yield _completion_times(result)
    packets = traffic.packets
    if packets is not None and any(port.longest_queue for port in packets.ports):
        yield _longest_queues(result, packets.ports)
    if packets is not None and packets.pausings:
        yield _paused_links(result, packets.ports, traffic.roots)


def shortened(
    columns: Sequence[str], rows: Sequence[Sequence[str]], n: int, left: int = 1
) -> Columns:
    """A table of the first of ``n`` rows, which says how many more there are."""
    more = [(f"... and {n - len(rows):,} more",)] if n > len(rows) else []
    return table(columns, [*rows, *more], left)


def _completion_times(result: Result) -> Columns:
    """Of each collective: the times that half, and 99 %, of its messages do not exceed."""
    return table(
        ("completion times", "messages", "p50", "p99", "longest"),
        (
            (name, f"{len(times):,}", *(not_exceeded(times, share) for share in (0.5, 0.99, 1.0)))
            for name, times in result.completion_times.items()
        ),
    )


def _longest_queues(result: Result, ports: Sequence[PortAccount]) -> Columns:
    """Where most packets waited, and what became of them."""
    drops, trims = (any(getattr(port, name) for port in ports) for name in ("dropped", "trimmed"))
    queued = [link for link, port in enumerate(ports) if port.longest_queue]
    ranked = sorted(queued, key=lambda link: -ports[link].longest_queue)
    rows = []
    for link in ranked[:LINKS_SHOWN]:
        port = ports[link]
        cells = [units.format_bytes(port.longest_queue), f"{port.data:,}", f"{port.marked:,}"]
        lost = [f"{port.dropped:,}"] * drops + [f"{port.trimmed:,}"] * trims
        rows.append((result.links[link].link.name, *cells, *lost))
    columns = ["longest queues", "at most", "packets", "marked"]
    columns += ["dropped"] * drops + ["trimmed"] * trims
    return shortened(columns, rows, len(ranked))


def _paused_links(
    result: Result, ports: Sequence[PortAccount], roots: Mapping[int, Counter[int]]
) -> Columns:
    """Who had to wait for whom: a link is paused since packets wait, in the end at the root of the
    tree of pauses; the most frequent root is named."""
    paused = sorted(roots, key=lambda link: -ports[link].paused)
    rows = []
    for link in paused[:LINKS_SHOWN]:
        port = ports[link]
        ((root, times), *others) = roots[link].most_common()
        total = times + sum(n for _, n in others)
        share = f" ({times / total:.0%})" if others else ""
        names = [result.links[link].link.name, result.links[root].link.name + share]
        rows.append((*names, f"{port.pauses:,}", units.format_time(port.paused)))
    columns = ("paused links", "root of the tree of pauses", "pauses", "paused")
    return shortened(columns, rows, len(paused), left=2)
