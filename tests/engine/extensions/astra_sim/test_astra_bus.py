"""ASTRA-sim's shared memory bus, packet by packet."""

from collections.abc import Callable

from dimsweep.engine.extensions.astra_sim.links import Bus, Clock, Timers
from dimsweep.engine.formats.astra_sim import BusModel

MODEL = BusModel(latency=5, overhead=3, gap=40, per_byte=0.01, reduction=1)
N = 10_001
CROSS, INNER = 3 + 100 + 5 + 3, 3 + 38 + 5 + 3  # ns over a bus: 0.01 and 0.0038 ns a byte


def ends(*moves: Callable[[Bus, Callable[[], None]], None]) -> list[int]:
    """When each of ``moves``, begun together, is done."""
    clock = Clock()
    bus = Bus(MODEL, Timers(clock))
    times: list[int] = []
    for move in moves:
        move(bus, lambda: times.append(clock.now))
    clock.run()
    return times


def out(bus: Bus, done: Callable[[], None]) -> None:
    bus.send(N, done)


def into(
    *, processed: bool = False, back: bool = False
) -> Callable[[Bus, Callable[[], None]], None]:
    return lambda bus, done: bus.receive(N, done, processed=processed, back=back)


def test_one_packet_alone() -> None:
    assert ends(out) == [INNER + CROSS]
    assert ends(into()) == [CROSS + INNER]


def test_reducing_means_a_round_trip_to_the_memory() -> None:
    reduction = N // 100 + 50
    assert ends(into(processed=True)) == [CROSS + 2 * INNER + reduction + INNER]
    once_more = 2 * INNER + CROSS  # fetched from the memory, and over the bus again
    assert ends(into(processed=True, back=True)) == [CROSS + 2 * INNER + reduction + once_more]


def test_the_second_packet_waits_for_the_gap() -> None:
    first, second = ends(into(), into())
    assert first == CROSS + INNER
    assert second == first + 100 + MODEL.gap


def test_the_ends_take_turns() -> None:
    """An end that has sent more than eight in a row lets the other one."""
    order: list[str] = []
    clock = Clock()
    bus = Bus(MODEL, Timers(clock))
    for _ in range(12):
        bus.receive(N, lambda: order.append("in"), processed=False, back=False)
    bus.send(N, lambda: order.append("out"))
    clock.run()
    assert order.count("in") == 12
    assert 8 <= order.index("out") <= 10
