"""What goes through a wafer's I/O controllers, as arrays."""

from collections import defaultdict
from collections.abc import Sequence

from engine.kernels.core.none import NONE
from engine.kernels.messages.io_plan import Train, Trains, Transfer
from engine.kernels.messages.records import (
    GATE,
    IO_HOP,
    IO_MEMBER,
    TRAIN,
    TRANSFER,
    Io,
    named_records,
)
from engine.kernels.messages.trees import gate_row

_Rows = list[dict[str, float]]


class _Writer:
    """``links`` is the list of links that routes share."""

    def __init__(self, links: list[int]) -> None:
        self._links = links
        self.trains, self.hops, self.gates = _Rows(), _Rows(), _Rows()
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
        cascade, at, gates = train.cascade, len(self.hops), len(self.gates)
        for expected, (start, end) in cascade.gates:
            self.gates.append(gate_row(expected, at + start, at + end))
        for launch in cascade.launches:
            self.hops.append(
                {
                    "hop": len(self._links),
                    "gate": NONE if launch.gate == NONE else gates + launch.gate,
                    "stored": launch.stored,
                    "gets": launch.who,
                    "train": len(self.trains),
                }
            )
            self._links.append(launch.link)
        first, end = cascade.first
        self.trains.append(
            {
                "first": at + first,
                "first_end": at + end,
                "pieces": train.pieces,
                "ends": train.n_ends,
            }
        )


def io_tables(transfers: Sequence[Transfer], links: list[int]) -> tuple[Io, int]:
    """The tables of all transfers, whose links are written to ``links``, and how many pieces may
    begin in one step."""
    writer, rows, members = _Writer(links), _Rows(), _Rows()
    most: dict[int, int] = defaultdict(int)  # by rank: of a piece's hops, those that begin it
    for number, transfer in enumerate(transfers):
        trains, start = transfer.trains, len(members)
        members += [
            {"late": late, "transfer": number, "node": node}
            for late, node in zip(trains.late, transfer.nodes, strict=True)
        ]
        train, train_end = writer.all_of(trains)
        rows.append(
            {
                "n_bytes": transfer.n_bytes * trains.share,
                "member": start,
                "member_end": len(members),
                "train": train,
                "train_end": train_end,
                "store": transfer.store,
                "n_pieces": trains.n_pieces,
                "n_messages": trains.n_messages,
            }
        )
        begin = sum(end - start for start, end in (train.cascade.first for train in trains.trains))
        most[transfer.ranks[0]] = max(most[transfer.ranks[0]], begin)
    tables = Io(
        named_records(rows, TRANSFER),
        named_records(members, IO_MEMBER),
        named_records(writer.trains, TRAIN),
        named_records(writer.hops, IO_HOP),
        named_records(writer.gates, GATE),
    )
    return tables, sum(most.values())
