"""What goes through a wafer's I/O controllers, as arrays."""

from collections.abc import Sequence

from engine.kernels.core.none import NONE
from engine.kernels.messages.io_plan import Train, Trains, Transfer
from engine.kernels.messages.records import GATE, IO_HOP, IO_MEMBER, TRAIN, TRANSFER, Io, records_of


class _Writer:
    """``links`` is the list of links that routes share."""

    def __init__(self, links: list[int]) -> None:
        self._links = links
        self.trains: list[tuple[int, ...]] = []
        self.hops: list[tuple[int, ...]] = []
        self.gates: list[tuple[int, ...]] = []
        self._known: dict[int, tuple[int, int]] = {}

    def all_of(self, trains: Trains) -> tuple[int, int]:
        """Where trains stand that transfers between the same ranks share."""
        if id(trains) not in self._known:
            start = len(self.trains)
            for train in trains.trains:
                self._write(train)
            self._known[id(trains)] = start, len(self.trains)
        return self._known[id(trains)]

    def _write(self, train: Train) -> None:
        """The hops that begin together stand side by side."""
        hops, number = train.tree.hops, len(self.trains)
        together = list(dict.fromkeys([train.tree.first, *(hop.next for hop in hops if hop.next)]))
        starts: dict[tuple[int, ...], int] = {}
        gates: dict[tuple[int, ...], int] = {(): NONE}
        at = len(self.hops)
        for places in together:
            starts[places] = at
            at += len(places)
        for places in together[1:]:
            gates[places] = len(self.gates)
            start = starts[places]
            self.gates.append((0, hops[places[0]].awaits, 0, start, start + len(places)))
        for places in together:
            for hop in (hops[place] for place in places):
                row = (len(self._links), gates[hop.next], int(hop.stored), hop.gets, number)
                self.hops.append(row)
                self._links.append(hop.link)
        first, ends = starts[train.tree.first], sum(hop.gets != NONE for hop in hops)
        last = first + len(train.tree.first)
        self.trains.append((first, last, train.pieces, ends, 0, 0, 0))


def io_tables(transfers: Sequence[Transfer], links: list[int]) -> tuple[Io, int]:
    """The tables of all transfers, whose links are written to ``links``, and how many pieces may
    begin in one step."""
    writer = _Writer(links)
    rows: list[tuple[float, ...]] = []
    members: list[tuple[int, ...]] = []
    most: dict[int, int] = {}  # by rank: of a piece's hops, those that begin it
    for number, transfer in enumerate(transfers):
        trains = transfer.trains
        start = len(members)
        members += [
            (late, 0, number, node) for late, node in zip(trains.late, transfer.nodes, strict=True)
        ]
        rows.append(
            (
                transfer.n_bytes * trains.share,
                0,
                start,
                len(members),
                0,
                *writer.all_of(trains),
                int(transfer.store),
                trains.n_pieces,
                trains.n_messages,
            )
        )
        begin = sum(len(train.tree.first) for train in trains.trains)
        most[transfer.ranks[0]] = max(most.get(transfer.ranks[0], 0), begin)
    tables = Io(
        records_of(rows, TRANSFER),
        records_of(members, IO_MEMBER),
        records_of(writer.trains, TRAIN),
        records_of(writer.hops, IO_HOP),
        records_of(writer.gates, GATE),
    )
    return tables, sum(most.values())
