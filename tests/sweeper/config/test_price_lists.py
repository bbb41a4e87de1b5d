"""Lists of whole parts: what they say, what is refused, and what networks cost by them."""

from collections import Counter
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.network import LEVELS, PartKind, build_bill
from dimsweep.engine.network.parts import Need
from dimsweep.sweeper.config.catalogue import load_catalogue
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.cost import Cost
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.sources import read_values
from dimsweep.sweeper.places import list_groups
from dimsweep.sweeper.simulation.program import build_cluster
from tests.support.refused import refused

LISTS = [name for name in list_groups()["cost"] if "parts" in read_values("cost", name)]
PRICE = {"value": "36 kUSD", "date": "2024-08", "source": "a quotation", "level": "V"}
SWITCH = {"kind": "switch", "ports": 64, "bandwidth": "400 Gb/s", "price": PRICE}


def of(name: str) -> Cost:
    return Cost.from_plain(read_values("cost", name))


@pytest.mark.parametrize("name", LISTS)
def test_every_price_has_a_date_a_source_and_a_level(name: str) -> None:
    parts = of(name).price_list().parts
    assert len(parts) >= 5
    for part in parts:
        for amount in (part.price, part.watts):
            if amount is not None:
                assert "2020" <= amount.date < "2027"
                assert amount.source
                assert amount.level in LEVELS
        assert part.price is not None


def test_the_catalogue_says_what_a_part_is() -> None:
    """Once: a list has its price alone, or beside it what is otherwise there."""
    known = load_catalogue().parts["qm9700"]
    sold = of("h100_2024_08").parts["qm9700"]
    assert (sold.kind, sold.ports, sold.bandwidth) == (PartKind.SWITCH, 64, known.bandwidth)
    assert sold.watts == known.watts
    assert sold.price is not None and sold.price.value == 36_000
    other = Cost.from_plain({"parts": {"qm9700": {"ports": 32, "price": PRICE}}}).parts["qm9700"]
    assert (other.ports, other.title) == (32, "Quantum-2 QM9700")


def test_what_a_list_says_is_in_the_configuration() -> None:
    """So it is in a study's rows, whatever becomes of the catalogue."""
    text = compose(["cluster=dgx_h100", "nodes=4", "cost=h100_2024_08"]).config.text
    assert text["cost"]["parts"]["qm9700"]["ports"] == 64
    assert Cost.from_plain(text["cost"]) == of("h100_2024_08")


@pytest.mark.parametrize(
    ("cost", "where", "code", "data"),
    [
        ({"price": {**PRICE, "value": "-5 USD"}}, "price.value", "out-of-range", "-5 USD"),
        ({"price": {**PRICE, "value": "36 kEUR"}}, "price.value", "wrong-type", "36 kEUR"),
        ({"price": {**PRICE, "value": 36000}}, "price.value", "wrong-type", "36000"),
        ({"price": {k: v for k, v in PRICE.items() if k != "date"}}, "price.date", "missing", ""),
        ({"price": {k: v for k, v in PRICE.items() if k != "source"}}, "source", "missing", ""),
        ({"price": {**PRICE, "date": "last year"}}, "price.date", "bad-syntax", "last year"),
        ({"price": {**PRICE, "date": "2024-13"}}, "price.date", "bad-syntax", "2024-13"),
        ({"price": {**PRICE, "date": True}}, "price.date", "bad-syntax", "true"),
        ({"price": {**PRICE, "source": " "}}, "price.source", "wrong-type", "' '"),
        ({"price": {**PRICE, "level": "X"}}, "price.level", "unknown-name", "V, N, S, A"),
        ({"watts": {**PRICE, "value": "36 kUSD"}}, "watts.value", "wrong-type", "36 kUSD"),
        ({"kind": "router"}, "kind", "unknown-name", "npu, nic, switch"),
        ({"ports": 0}, "ports", "out-of-range", "from 1 to 65536"),
        ({"splits": 10**9}, "splits", "out-of-range", "from 1 to 65536"),
        ({"bandwidth": "400 W"}, "bandwidth", "wrong-type", "400 W"),
        ({"kind": "cable"}, "medium", "missing", "copper or fibre"),
        ({"radix": 64}, "radix", "unknown-key", ""),
    ],
)
def test_wrong_parts_are_refused(
    cost: dict[str, object], where: str, code: Code, data: str
) -> None:
    with refused(where, code, data, "parts.mine."):
        Cost.from_plain({"parts": {"mine": {**SWITCH, **cost}}})


@pytest.mark.parametrize(
    ("cost", "where", "code", "data"),
    [
        ({"tiers": {"pod": {"link": "7 USD/(GB/s)"}}}, "tiers.pod", "conflict", "cost.parts"),
        ({"power": {"tiers": {"pod": {}}}}, "power.tiers", "conflict", "cost.parts"),
        ({"power": {"pue": 0.5}}, "power.pue", "out-of-range", "0.5"),
        ({"tiers": {"pod": {"medium": "air"}}}, "tiers.pod.medium", "unknown-name", "copper"),
        ({"tiers": {"pod": {"length": "3 s"}}}, "tiers.pod.length", "wrong-type", "3 s"),
        ({"parts": {"a b": SWITCH}}, "parts.a b", "bad-syntax", "'a b'"),
        ({"npu": "9 kUSD", "parts": {"b": {**SWITCH, "kind": "npu"}}}, "npu", "duplicate", ""),
        ({"parts": {"mine": 5}}, "parts.mine", "wrong-type", "5"),
        ({"parts": [SWITCH]}, "parts", "wrong-type", ""),
    ],
)
def test_wrong_lists_are_refused(
    cost: dict[str, object], where: str, code: Code, data: str
) -> None:
    with refused(where, code, data):
        Cost.from_plain({"parts": {"mine": SWITCH}} | cost)


def test_two_entries_of_one_part_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    entry = OmegaConf.to_yaml({"mine": SWITCH})
    file.write_text("parts:\n" + "".join(f"  {line}\n" for line in (entry * 2).splitlines()))
    with pytest.raises(DimsweepError, match="mine"):
        read_options(file)


def test_a_server_is_shared_by_its_npus() -> None:
    assert of("h100_2024_08").npu_price == 310_000 / 8
    assert Cost.from_plain({"npu": "9 kUSD"}).npu_price == 9000
    assert of("atop_2025").npu_price == 0


# Networks of ATOP's table 7: switches, their radix, Gb/s of a port, cables of copper and of fibre,
# modules, ports of adapters; and M USD of its figure 9, as others read them off.  A third of HPN's
# modules are in cables between switches, each of two ports.
ATOP = {
    1024: {
        "ROFT": ((160, 32, 400, 0, 3072, 6144, 1), 7.47),
        "Rail-only": ((96, 32, 400, 0, 2048, 4096, 1), 5.40),
        "Dragonfly": ((264, 15, 400, 1980, 528, 1056, 1), 3.12),
        "BCube": ((64, 32, 200, 1024, 1024, 2048, 2), 3.39),
        "HPN": ((96, 64, 200, 0, 3072, 6144, 2), 5.87),
        "ZCube": ((64, 64, 200, 1024, 2048, 4096, 2), 3.99),
    },
    4096: {
        "ROFT": ((320, 64, 400, 0, 12288, 24576, 1), 27.92),
        "Rail-only": ((192, 64, 400, 0, 8192, 16384, 1), 20.41),
        "Dragonfly": ((876, 23, 400, 10074, 2628, 5256, 1), 11.80),
        "BCube": ((128, 64, 200, 4096, 4096, 8192, 2), 13.56),
        "ZCube(16,3)": ((640, 48, 200, 4096, 12288, 24576, 2), 22.21),
        "ZCube(64,2)": ((128, 128, 200, 4096, 8192, 16384, 2), 15.20),
    },
    16384: {
        "ROFT": ((640, 128, 400, 0, 49152, 98304, 1), 92.93),
        "Rail-only": ((384, 128, 400, 0, 32768, 65536, 1), 76.38),
        "BCube": ((256, 128, 200, 16384, 16384, 32768, 2), 52.67),
        "HPN": ((384, 256, 200, 0, 49152, 98304, 2), 84.03),
    },
}


@pytest.mark.parametrize("gpus", ATOP)
def test_networks_rank_by_one_list_as_they_were_read_to(gpus: int) -> None:
    prices, ours, read = of("atop_2025").price_list(), {}, {}
    for name, (counts, musd) in ATOP[gpus].items():
        switches, radix, gbps, copper, fibre, modules, ports = counts
        port, wide = gbps / 8 * 1e9, modules // 3 if name == "HPN" else 0
        bill = build_bill(
            Counter(
                {
                    Need(PartKind.SWITCH, ((port, radix),)): switches,
                    Need(PartKind.CABLE, ((port, 1),), 0, "copper", 3.0): copper,
                    Need(PartKind.CABLE, ((port, 1),), 0, "fibre", 30.0): fibre,
                    Need(PartKind.TRANSCEIVER, ((port, 1),), at="switch"): modules - wide,
                    Need(PartKind.TRANSCEIVER, ((2 * port, 1),), at="switch"): wide,
                    Need(PartKind.NIC, ((port, ports),)): gpus,
                }
            ),
            prices,
        )
        assert bill.cost is not None
        ours[name], read[name] = bill.cost / 1e6, musd
        assert ours[name] == pytest.approx(musd, rel=0.105)
    assert sorted(ours, key=ours.__getitem__) == sorted(read, key=read.__getitem__)


def test_a_cluster_has_the_price_of_its_parts() -> None:
    cluster = build_cluster(compose(["cluster=dgx_h100", "nodes=128", "cost=h100_2024_08"]).config)
    assert cluster.prices is not None and cluster.power is not None
    assert cluster.prices.fixed == 128 * 310_000 + 1_728_000 + 2_621_440
    assert cluster.power.fixed == pytest.approx(
        1.3 * (128 * 10_200 + 48 * 783 + 1024 * 7.5 + 1536 * 15)
    )
