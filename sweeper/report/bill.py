"""A bill of materials, as texts for the terminal and the HTML page, and as rows for CSV."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.engine.network import LEVELS, Amount, Bill, Item
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.study.restore import load_design
from dimsweep.sweeper.table import Table

Sources = Mapping[str, str]  # who says the prices of a table by tier, by its keys

# The columns of a row, as `dimsweep bill --csv` writes them.
COLUMNS = (
    *("part", "kind", "title", "like", "count", "unit"),
    *("price_usd", "price_date", "price_source", "price_level", "cost_usd"),
    *("watts", "watts_date", "watts_source", "watts_level", "power_w", "missing"),
)


def tabulate_bill(bill: Bill, title: str, sources: Sources | None = None) -> list[Table]:
    """Return the bill as a table of parts, counts and prices.

    If prices have ``sources``, a second table lists them.
    """
    said = [_said(item, sources or {}) for item in bill.items]
    known = list(dict.fromkeys(filter(None, said)))
    rows = []
    for item, source in zip(bill.items, said, strict=True):
        note = f" ({known.index(source) + 1})" if source else ""
        rows.append((f"{item.title}{note}", item.like, *_numbers(item)))
    rows += _sums(bill)
    columns = ("part", "each has", "count", "USD\neach", "USD", "W")
    ranks = (0, 0, 0, 1, 0, 2)
    found = [Table(title, columns, rows, 2, ranks)]
    if not any(row[1] for row in rows):  # a table by tier has no ports
        rows = [(row[0], *row[2:]) for row in rows]
        found = [Table(title, (columns[0], *columns[2:]), rows, 1, ranks[1:])]
    levels = sorted({i.price.level for i in bill.items if i.price}, key=[*LEVELS, ""].index)
    levels_text = "; ".join(f"{each}: {LEVELS[each]}" for each in levels if each)
    heading = "Sources of these prices" + (f" ({levels_text})" if levels_text else "")
    notes = [(f"({i + 1})", source) for i, source in enumerate(known)]
    return [*found, Table(heading, ("", "source"), notes, 2)] if notes else found


def bill_of_design(report: Report) -> tuple[list[Table], list[str]]:
    """Return the bill of the first chosen design of a report, as tables and sentences.

    Both are empty if the study has no prices.
    """
    cell, row = report.chosen[0]
    prices = report.study.config_of(cell.cell).get("cost") or {}
    if not prices.get("parts") and not prices.get("tiers"):
        return [], []
    try:
        config = load_design(report.study, cell.cell, row)
        topology = config.topology.build()
        network = config.network.build(topology, config.fidelity)
        bill = config.purchase(topology, network).bill()
    except DimsweepError as error:  # a file or a plug-in that is not here
        return [], [f"the bill is missing: {error}"]
    what = topology.name if network.graph is None else f"network.{config.network.links_key}"
    title = f"Bill of materials of {what}, {topology.n_npus:,} NPUs"
    return tabulate_bill(bill, title), remarks(bill)


def remarks(bill: Bill) -> list[str]:
    """Return one sentence each on missing prices, missing watts and assumed prices."""
    found = [f"not in the sum: {text}" for text in bill.missing]
    found += [f"not in the watts: {text}" for text in bill.unpowered]
    assumed = math.fsum(i.cost for i in bill.items if i.price and i.price.level == "A")
    if bill.cost and assumed:
        found.append(f"{assumed / bill.cost:.0%} of the sum are prices that their author assumed")
    return found


def _numbers(item: Item) -> tuple[str, ...]:
    return (
        f"{item.count:,.7g} {item.unit}" if item.unit else f"{item.count:,.0f}",
        "" if item.price is None else _price(item.price.value),
        "" if item.price is None else _sum(item.cost),
        "" if item.watts is None else _sum(item.power),
    )


def _price(value: float) -> str:
    """Format the price of one part; LIBRA's prices end in 1e-5 USD, which breaks ties."""
    return f"{value:,.7g}" if value >= 100 else f"{value:.5g}"


def _sum(amount: float) -> str:
    """Format an amount as whole dollars or watts; small amounts keep their digits."""
    return f"{amount:,.0f}" if amount == 0 or abs(amount) >= 100 else f"{amount:.4g}"


def _said(item: Item, sources: Sources) -> str:
    """Return the date of a price, how reliable its source is, and the source."""
    price = item.price
    if price is None or not price.source:
        return sources.get(item.part, "")
    return ": ".join(filter(None, (f"{price.date} {price.level}".strip(), price.source)))


def _sums(bill: Bill) -> Iterator[tuple[str, ...]]:
    """Yield a row with the totals, and a row with the data centre's power if that is known."""
    cost, power, n = bill.cost, bill.power, len(bill.missing)
    name = "sum" if cost is not None else f"no sum: {n} without a price"
    watts = "-" if power is None else _sum(power / bill.pue)
    yield (name, "", "", "", "-" if cost is None else _sum(cost), watts)
    if power is not None and bill.pue != 1:
        yield (f"with a PUE of {bill.pue:g}", "", "", "", "", _sum(power))


def rows(bill: Bill, sources: Sources | None = None) -> list[dict[str, Any]]:
    """Return a row for each item of a bill, with the columns :data:`COLUMNS`, in USD and W.

    A part without a price has a row with only ``missing``.
    """
    found = [_row(item, sources or {}) for item in bill.items]
    return [*found, *({**dict.fromkeys(COLUMNS), "missing": text} for text in bill.missing)]


def _row(item: Item, sources: Sources) -> dict[str, Any]:
    named = {name: getattr(item, name) for name in ("part", "kind", "title", "like", "count")}
    price, watts = _plain("price_", item.price), _plain("watts_", item.watts)
    return {
        **named,
        "kind": str(item.kind),
        "unit": item.unit,
        "price_usd": None if item.price is None else item.price.value,
        **{**price, "price_source": price["price_source"] or sources.get(item.part)},
        "cost_usd": None if item.price is None else item.cost,
        "watts": None if item.watts is None else item.watts.value,
        **watts,
        "power_w": None if item.watts is None else item.power,
        "missing": None,
    }


def _plain(prefix: str, amount: Amount | None) -> dict[str, str | None]:
    names = ("date", "source", "level")
    return {f"{prefix}{name}": getattr(amount, name, None) or None for name in names}
