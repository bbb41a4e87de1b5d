"""Laws of the model that are about all kernels, beside those that each room tests."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.network.routing import Routing
from tests.support.examples import examples
from tests.support.messages import Carried, Sending, carry_over

TOPOLOGY = Topology.build("Ring(4)_Switch(3)", bandwidth=[8e9, 2e9], latency=[500, 3000])


@examples(40)
@given(
    st.lists(
        st.builds(
            Sending,
            st.integers(0, 11),
            st.integers(0, 11),
            st.sampled_from([0, 1, 1000, 4096]),
            precedence=st.just(0),
            at=st.sampled_from([0, 1, 1000, 250_000]),
        ),
        max_size=40,
    )
)
def test_nobody_overtakes_on_the_same_way(sendings: list[Sending]) -> None:
    sendings = [each for each in sendings if each.source != each.target]
    carried: Carried = carry_over(TOPOLOGY, sendings, NetworkModel(routing=Routing.SHORTEST))
    order = sorted(range(len(sendings)), key=lambda i: sendings[i].at)  # stable: as they are given
    arrivals = defaultdict(list)
    for i in order:
        arrivals[sendings[i].source, sendings[i].target].append(carried.arrivals[i])
    assert all(times == sorted(times) for times in arrivals.values())
