"""A run with room for more of what was short."""

import numpy as np

from dimsweep.engine.kernels.core.agenda import enlarged_agenda
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.pool import with_more
from dimsweep.engine.kernels.core.rows import with_room
from dimsweep.engine.kernels.flow.tables import with_slots
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.carrying import BY_FLOWS
from dimsweep.engine.kernels.network.setup import new_ring
from dimsweep.engine.records import new_table


def enlarged(state: st.State) -> st.State:
    """The same run with room for twice as much of what was short."""
    if state.wires.clock.counts["in_last"][0] > 0:
        state = _with_more_lanes(state)
    wires = state.wires
    settings, counts = wires.settings, wires.clock.counts[0]
    if counts["parcels"]["left"] < settings.need:
        wires = _with_more_parcels(wires)
    if settings.suspends and counts["feeds"]["left"] < settings.need:
        wires = wires._replace(feeds=with_more(counts["feeds"], wires.feeds))
    if settings.record:
        wires = wires._replace(spans=with_room(wires.spans, counts["n_spans"] + settings.need))
    if settings.carried:
        messages = with_room(wires.messages, counts["n_messages"] + settings.need)
        wires = wires._replace(messages=messages)
    clock = _with_more_events(wires.clock, settings.burst + int(counts["under_way"]))
    return state._replace(wires=wires._replace(clock=clock))


def _with_more_events(clock: st.Clock, burst: int) -> st.Clock:
    """Room for what a step may plan, later and in this instant, if there is too little."""
    agenda, ring, counts = clock.agenda, clock.ring, clock.counts[0]
    while agenda.counts["free"]["left"][0] < burst:
        agenda = enlarged_agenda(agenda)
    planned = int(counts["ring_end"] - counts["ring"])
    if planned + len(agenda.events) + burst <= len(ring):
        return clock._replace(agenda=agenda)
    old = np.arange(counts["ring"], counts["ring_end"]) % len(ring)
    more = new_ring(planned + len(agenda.events) + burst)
    more[:planned] = ring[old]
    numbers = clock.numbers
    if len(numbers):
        numbers = np.zeros(len(more), np.int64)
        numbers[:planned] = clock.numbers[old]
    counts["generation_end"] -= counts["ring"]
    counts["ring"], counts["ring_end"] = 0, planned
    return clock._replace(agenda=agenda, ring=more, numbers=numbers)


def _with_more_parcels(wires: st.Wires) -> st.Wires:
    """Twice as many parcels, and what each of them has."""
    clock, before = wires.clock, len(wires.parcels)
    parcels = with_more(clock.counts[0]["parcels"], wires.parcels)
    if wires.settings.carried == BY_FLOWS:
        return wires._replace(parcels=parcels, flows=with_slots(wires.flows, len(parcels)))
    if not wires.settings.suspends:
        return wires._replace(parcels=parcels)
    more = len(parcels) - before
    plans = np.concatenate([clock.plans, new_table(2 * more, st.PLAN, at=NONE)])
    order = np.append(clock.order, np.zeros(2 * more, np.int32))
    crossings = np.append(wires.crossings, np.zeros(more, st.SUSPENDABLE))
    clock = clock._replace(plans=plans, order=order)
    return wires._replace(parcels=parcels, crossings=crossings, clock=clock)


def _with_more_lanes(state: st.State) -> st.State:
    """Twice as many lanes, the new ones idle."""
    ports, strands, slots = state.wires.ports, state.strands, state.slots
    more, more_strands = ports.copy(), strands.copy()
    more["serving"] = NONE
    more["strands"] += len(strands)
    more["slots"] += len(slots)
    more_strands["port"] += len(ports)
    state.wires.clock.counts["in_last"] = 0
    return state._replace(
        wires=state.wires._replace(ports=np.concatenate([ports, more])),
        strands=np.concatenate([strands, more_strands]),
        slots=np.concatenate([slots, new_table(len(slots), st.SLOT, head=NONE)]),
    )
