"""A lowered run of ASTRA-sim's simulation: the flat tables that the kernel reads, never changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Table = NDArray[np.void]  # records

LONGEST = 2**53  # ns, of one node or phase; bytes of a chunk
# Kinds of nodes: ended as soon as issued; after their duration; and so on.
INSTANT, TIMED, SEND, RECEIVE, COLLECTIVE = range(5)
# Slots of a rank, for one node at a time each; NO_SLOT, that of receives, for any number.
CPU, GPU, COMM, NO_SLOT = range(4)
N_SLOTS = 4

NODE = np.dtype(
    [
        ("kind", "i4"),
        ("slot", "i4"),
        ("rank", "i4"),
        ("waits", "i4"),  # number of nodes it waits for
        ("next_start", "i4"),  # the nodes that wait for it, in Tables.following
        ("next_end", "i4"),
        ("communicates", "i4"),
        ("what", "i4"),  # collective: its first plan; send: its recipe; else -1
        ("match", "i4"),  # send and receive: what they have in common, else -1
        ("duration", "i8"),  # ns, if TIMED
    ],
    align=True,
)
# Nodes of a rank are numbered in the order of their ids; ``ready``: where each slot's heap begins.
RANK = np.dtype([("node_start", "i4"), ("node_end", "i4"), ("ready", "i4", (N_SLOTS,))])
# A collective of a rank, planned for one state of its queue allocator: chunk after chunk.
PLAN = np.dtype(
    [
        ("chunk_start", "i4"),
        ("chunk_end", "i4"),
        ("tick_start", "i4"),  # room in ``ticks``, one a phase
        ("next_state", "i4"),
    ]
)
CHUNK = np.dtype([("step_start", "i4"), ("step_end", "i4")])
STEP = np.dtype(
    [
        ("queue", "i4"),
        ("recipe", "i4"),
        ("sorts", "i4"),  # whether it goes before larger ones in its queue
        ("largest", "i8"),  # bytes before or after it
    ],
    align=True,
)
RECIPE = np.dtype([("fixed", "i8"), ("term_start", "i4"), ("term_end", "i4")], align=True)
TERM = np.dtype([("dim", "i4"), ("hops", "i4"), ("count", "i4"), ("n_bytes", "f8")], align=True)


class Tables(NamedTuple):
    """``recipes`` whose ``term_start`` is -1 are priced outside of the kernel."""

    nodes: Table  # NODE
    following: Ints
    ranks: Table  # RANK, one a kind of ranks
    apart: Ints  # of each match: whether sender and receiver are different ranks here
    plans: Table  # PLAN
    chunks: Table  # CHUNK
    steps: Table  # STEP
    recipes: Table  # RECIPE
    terms: Table  # TERM
    n_ticks: int
    n_queues: int
    limit: int  # chunks that run at a time in a queue
