"""Repeat ATOP's search: prove the frontier of a subset of its space, and compare its networks."""

import time
from collections.abc import Iterator
from dataclasses import replace

import click
from rich.console import Console

from dimsweep.engine.network import PriceList, build_bill, list_needs
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.atop_space import SERVER, Limits, generate_networks
from dimsweep.sweeper.extensions.verify.atop_traffic import (
    Front,
    TrafficCases,
    TrainingJob,
    compute_mean_time,
    find_front,
)
from dimsweep.sweeper.extensions.verify.networks import build_generator
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Point,
    Shape,
    Value,
    create_console,
    json_option,
    run_verification,
    within_share,
)
from dimsweep.sweeper.terminal import make_table, print_line

_SOURCE = "Yan et al., From ATOP to ZCube, SIGCOMM 2025, figure 9 as others read it"
_TABLE = "Yan et al., From ATOP to ZCube, SIGCOMM 2025, section 3 and table 8"
_PRICED = within_share(0.11)  # the error of the fitted prices (conf/cost/atop_2025.yaml)
_BITS = 1e9 / 8
# By NPUs: training job (table 8), total Gb/s of a switch (section 7), hours on 256 cores.
SCALES = {
    256: (TrainingJob(256, layers=48, hidden=6144, batch=384, chunks=3), 6_400, 6.5),
    1024: (TrainingJob(1024, layers=96, hidden=12288, batch=1536, chunks=3), 12_800, 10.6),
}
# Networks of the source: Gb/s of a port, and the cost in MUSD of 1,024 GPUs, read off figure 9.
THEIRS = {
    "ROFT": (400, 7.47),
    "Rail-only": (400, 5.40),
    "HPN": (200, 5.87),
    "BCube({n},2)": (200, 3.39),
    "ZCube({n},2)": (200, 3.99),
}


def read_prices() -> PriceList:
    """Return the price list that was fitted to the costs in the paper."""
    return compose(["workload=all_reduce", "cost=atop_2025"]).config.cost.price_list()


def find_points(npus: int, console: Console) -> Iterator[Point]:
    """Print the proven frontier, and yield the paper's networks compared with it."""
    start = time.process_time()
    trained, switch, hours = SCALES[npus]
    cases, parts = TrafficCases(trained), read_prices()
    front = find_front([*generate_networks(Limits(npus, switch * _BITS))], cases, parts)
    spent = time.process_time() - start
    rows = [
        (f"{step.cost / 1e6:.3f}", f"{step.mean * 1e3:.4g}", step.network.describe())
        for step in front.steps
    ]
    console.print(make_table(("MUSD", "mean ms", "network"), rows, left=3))
    print_line(
        f"the front of {front.networks:,} networks of {npus:,} GPUs: {front.timed:,} were"
        f" timed, the rest excluded by formula, in {spent:,.0f} s of one core; theirs took {hours}"
        " h of 256 cores for 100,000 networks at most, without a bound",
        console,
    )
    for topology, (gbps, read) in THEIRS.items():
        name = topology.format(n=round(npus**0.5))
        radix = {} if "(" in name else {"radix": round(switch / gbps)}
        made = build_generator(name, npus, radix.get("radix"), {"port_gbps": str(gbps)})
        network = replace(made, bandwidth=gbps * _BITS, server=SERVER).build()
        cost = build_bill(list_needs(network), parts).cost
        assert cost is not None
        if npus == 1024:
            yield Value(f"{name}, {npus}: cost", read, cost / 1e6, _PRICED, _SOURCE, "MUSD")
        yield _compare_with_front(name, cost, compute_mean_time(cases, network), front)


def _compare_with_front(name: str, cost: float, mean: float, front: Front) -> Shape:
    better, own = front.find_dominating(cost, mean), f"{cost / 1e6:.3g} MUSD, {mean * 1e3:.4g} ms"
    ours = f"{own}: none of the front is as good"
    if better is not None:
        ours = f"{own}: {better.mean * 1e3:.4g} ms for {better.cost / 1e6:.3g} MUSD"
    return Shape(
        f"{name} against the front",
        "a network as good or better is among those searched",
        ours,
        better is not None,
        _TABLE,
        "shortest ways, sprayed; sizes by table 8",
        basis="derived",
    )


@click.command("atop")
@click.option(
    "--npus",
    type=click.Choice([str(npus) for npus in SCALES]),
    default="256",
    show_default=True,
    help="GPUs.",
)
@json_option
def command(npus: str, as_json: bool) -> int:
    """Search a part of ATOP's space, and compare its networks with the proven front.

    Nine cases of traffic (4, 8 and 16 pipeline stages; gradients, activations, both) are spread
    over all shortest ways of each network, at prices fitted to the source's costs. No network of
    the space is as fast as one of the front and costs less. It takes half a minute of one core for
    256 GPUs, and seven minutes for 1,024.
    """
    console = create_console(as_json)
    return run_verification(
        "atop", lambda: Findings([*find_points(int(npus), console)]), as_json=as_json
    )
