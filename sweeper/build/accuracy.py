"""How sure a simulated time is: the error that measured clusters of its kind showed."""

from engine.model import Transformer
from sweeper.config.schema import Config
from sweeper.config.workload.model import Model

DENSE, EXPERTS = "dense", "experts"


def time_error(config: Config) -> float | None:
    """The mean relative error of such times, where it is known.

    It is `npu.error` for the kind of model (dense, or with experts) and the number of NPUs, as
    ``dimsweep verify clusters`` finds it for the training of transformers; beyond the largest
    number, that of the largest.
    """
    workload = config.workload
    if not config.npu.error or not isinstance(workload, Model):
        return None
    if workload.plan.task != "training" or not isinstance(workload.model, Transformer):
        return None
    steps = config.npu.error.get(EXPERTS if workload.model.experts else DENSE)
    if not steps:
        return None
    n_npus = config.topology.build().n_npus
    return next((error for limit, error in steps if n_npus <= limit), steps[-1][1])
