"""Credits that receivers give, and RCCC, whose senders send by them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.extensions.uet_htsim import Experiment, Options, Tree
from dimsweep.engine.kernels.packet import PacketRun, simulate_packets
from dimsweep.engine.kernels.packet.transports import Rccc, Rud
from tests.engine.kernels.packet.test_trimming import (
    ACK,
    FULL,
    HEADER,
    PAYLOAD,
    RIGHT,
    US,
    across,
    fabric,
    port,
    settings,
)
from tests.support.examples import examples
from tests.support.refused import refused


def incast(n: int, packets: int, transport: Rccc | None = None, room: int = 80_000) -> PacketRun:
    flows = [across(i, n, packets * PAYLOAD) for i in range(n)]
    return simulate_packets(fabric(n + 1, room), flows, settings(transport or Rccc()))


@pytest.mark.parametrize("n", [1, 5, 16])
def test_what_the_first_credit_covers_is_sent_at_once(n: int) -> None:
    run = simulate_packets(fabric(2), [across(0, 1, n * PAYLOAD)], settings(Rccc()))
    assert run.arrivals.tolist() == [(n + 3) * FULL + 4 * US]
    assert run.ends.tolist() == [(n + 3) * FULL + 8 * US + 4 * ACK]


@pytest.mark.parametrize("share", [0.99, 0.5])
def test_a_long_flow_is_as_fast_as_its_receiver_gives_credit(share: float) -> None:
    run = simulate_packets(fabric(2), [across(0, 1, 4000 * PAYLOAD)], settings(Rccc(share=share)))
    assert run.arrivals[0] == pytest.approx(4000 * FULL / share, rel=0.01)
    assert run.resent.sum() == 0


def test_of_an_incast_only_what_is_sent_before_credit_is_trimmed() -> None:
    short, long = incast(12, 200), incast(12, 400)
    first = 12 * 1.5 * (8 * US + 4 * (FULL + ACK)) / FULL
    assert 0 < short.resent.sum() < first
    assert long.resent.sum() < 1.1 * short.resent.sum()
    assert long.arrivals.max() == pytest.approx(12 * 400 * FULL / 0.99, rel=0.01)
    assert long.arrivals.min() > 0.97 * long.arrivals.max(), "they have credit in turn"


def test_senders_ask_for_credit_where_nothing_of_theirs_has_come() -> None:
    """Headers of what 60 hosts send fill their queue too; who has no credit left asks by a packet
    of its own, again if that is lost."""
    n = 60
    given = settings(Rccc(rto=50 * US), payload=200)
    flows = [across(i, n, 20_000) for i in range(n)]
    run = simulate_packets(fabric(n + 1, room=2_000), flows, given)
    trimmed = sum(each.trimmed for each in run.ports)
    assert run.dropped > 0 and run.timeouts.sum() > 0 and (run.ends > 0).all()
    assert run.resent.sum() <= trimmed + run.timeouts.sum()


def test_a_grant_is_a_packet_and_the_last_packet_that_it_lets_go_asks_for_an_ack() -> None:
    n_bytes, sent = 1000 * (PAYLOAD + HEADER), {}
    for grant in (4096, 8192, 16384):
        transport = Rccc(ack_every=10**6, grant=grant)
        flow = across(0, 1, 1000 * PAYLOAD)
        run = simulate_packets(fabric(2), [flow], settings(transport), watch=[(1, RIGHT)])
        sent[grant] = run.histories[1, RIGHT].sent[-1] / HEADER / (2 * n_bytes / grant)
    assert sent[4096] == pytest.approx(1, abs=0.05)
    assert all(0.95 < share < 1.2 for share in sent.values())


class Bold(Experiment):
    """Whose receivers do not know that the network is oversubscribed."""

    def _transport(self) -> Rud:
        transport = super()._transport()
        assert isinstance(transport, Rccc) and transport.least == 0.9 / 4
        return replace(transport, least=1.0)


def test_receivers_of_an_oversubscribed_network_give_less_credit() -> None:
    flows = tuple((i, (i + 8) % 32, 2_000_000, 0) for i in range(32))
    given = Tree(32, 8, 2, levels=2), flows, Options(credits=True)
    careful, bold = Experiment(*given).run(), Bold(*given).run()
    assert careful.resent.sum() < 0.5 * bold.resent.sum()
    least = 8 / 2 * 490 * 332_000
    assert least < careful.ends.max() < 1.25 * least


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 60 * PAYLOAD), st.integers(0, 20 * US)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([8_000, 20_000, 80_000]),
    st.booleans(),
    st.integers(0, 99),
)
@examples(20)
def test_every_byte_arrives_whatever_is_lost(
    drawn: list[tuple[int, int, int]], room: int, trims: bool, seed: int
) -> None:
    flows = [across(source, 5, size, start) for source, size, start in drawn]
    given = settings(Rccc(), trims=trims)
    run, again = (simulate_packets(fabric(6, room), flows, given, seed=seed) for _ in range(2))
    assert run.ends.tolist() == again.ends.tolist() and (run.ends >= run.arrivals).all()
    assert (run.arrivals > 0).all()
    assert port(run, RIGHT, 5).data_bytes >= sum(flow.size for flow in flows)


@pytest.mark.parametrize("keys", [{"grant": 100}, {"share": 0.0}, {"least": 1e-300}])
def test_keys_by_which_credit_would_never_come_are_refused(keys: dict[str, float]) -> None:
    with refused(*keys, "out-of-range"):
        Rccc(**keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [{"grant": 256}, {"share": 0.01}, {"most_credit": 1e-9}])
def test_the_least_credit_brings_all_that_is_sent(keys: dict[str, float]) -> None:
    run = incast(3, 8, Rccc(**keys))  # type: ignore[arg-type]
    assert (run.arrivals > 0).all()
