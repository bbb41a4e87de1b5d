"""All faults that are tried against a promise, in its order."""

from tests.faults import folders, stores, workers
from tests.faults.promise import FAULTS

__all__ = ["FAULTS", "folders", "stores", "workers"]
