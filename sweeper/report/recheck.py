"""A design that was simulated again, in more detail."""

from dataclasses import dataclass

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.ledger.rows import COMPLETE


@dataclass(frozen=True)
class Recheck:
    """A design that was simulated again, by messages, flows or packets: ``rank`` (from 1) and row
    in the search, and the row of messages, which may have failed."""

    rank: int
    phases: pd.Series
    messages: pd.Series

    @property
    def fidelity(self) -> str:
        """In which it was simulated again."""
        return str(self.messages["fidelity"])

    @property
    def failed(self) -> bool:
        return bool(self.messages["state"] != COMPLETE)

    def by_messages(self, digits: int = 4) -> str:
        """The iteration time message by message."""
        time = self.messages["time_s"]
        return "failed" if self.failed else units.format_quantity(time, units.TIME, digits)

    @property
    def ratio(self) -> str:
        """The iteration time by messages over that by phases."""
        by_phases = self.phases["time_s"]
        if self.failed or not by_phases:
            return "-"
        return f"{self.messages['time_s'] / by_phases:.3f}"
