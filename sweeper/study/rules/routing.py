"""Ways of a graph that nobody chose, and that all messages share."""

from dimsweep.engine import Program
from dimsweep.engine.network import has_equal_ways
from dimsweep.sweeper.config.schema import Config


def first_ways(config: Config, program: Program) -> list[str]:
    """Told where a graph has several shortest ways between NPUs and nothing says which are taken:
    then it is the first one for all, which a switch's cables do not share evenly."""
    network = program.communication.network
    graph = network.graph
    if graph is None or graph.sizes or network.routing is not None or not config.by_message:
        return []
    if not has_equal_ways(graph):
        return []
    return [
        "network.routing=auto takes the first of ways that are as short, so that messages share "
        "links while others are free; network.routing=ecmp spreads them by a hash, as switches do, "
        "and fidelity=flow or packet with network.routing=spray each over all of these ways"
    ]
