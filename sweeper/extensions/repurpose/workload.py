"""A trained network, restructured for the cluster's NPUs and served."""

from dataclasses import replace
from typing import Literal

import dimsweep.engine
from dimsweep.engine import Cluster, naming_place
from dimsweep.engine.extensions.repurpose import (
    Penalty,
    Restructured,
    inference,
    restructure,
    workers_on,
)
from dimsweep.engine.formats.weights import Samples, read_network, read_samples
from dimsweep.engine.workload import Amount, TrainedNetwork
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.part import (
    Bytes,
    FileName,
    Number,
    Part,
    WholeNumber,
    default,
    naming_key,
)
from dimsweep.sweeper.places import find_file

Method = Literal["repurpose", "direct", "magnitude", "random", "naive"]


class Penalties(Part):
    """The weights of penalties in restructuring (see engine.extensions.repurpose.Penalty)."""

    traffic: Number | WholeNumber = 3.0
    weights: Number | WholeNumber = 0.0


class Repurposed(Workload):
    """A trained network, restructured for as many workers as the cluster has NPUs, and served.

    ``model``: file of its weights. ``samples``: an npz file whose calibration inputs weigh errors
    (see engine.formats.weights). ``input``: the shape of a sample, if the model does not have it.
    ``penalty``: how much accuracy is traded for less traffic and fewer weights (see
    engine.extensions.repurpose.Penalty). ``speed`` of each worker, all 1 unless given. ``requests``
    batches of ``batch`` samples follow one another, each value of ``value`` bytes.
    """

    model: FileName
    samples: FileName | None = None
    input: tuple[WholeNumber, ...] = ()
    activation: str = "relu"
    method: Method = "repurpose"
    penalty: Penalties = default(Penalties)
    speed: tuple[Number | WholeNumber, ...] = ()
    seed: WholeNumber = 0
    batch: WholeNumber = 1
    requests: WholeNumber = 1
    value: Bytes = default("4 B")

    @property
    def arithmetic(self) -> str:
        return "fp32"

    def network(self) -> TrainedNetwork:
        """Read the trained network; raise :class:`DimsweepError` for a file without one."""
        with naming_place("workload.model"):
            return read_network(
                find_file(self.model), input_shape=self.input, activation=self.activation
            )

    def restructured(self, cluster: Cluster) -> Restructured:
        """Return the network, divided among the cluster's NPUs."""
        network, samples = self.network(), self.labelled()  # files before the table of all pairs
        with naming_key("workload"):
            workers = workers_on(cluster.topology, self.speed)
            with naming_key("penalty"):
                penalty = Penalty(weights=self.penalty.weights, traffic=self.penalty.traffic)
            return restructure(
                network,
                workers,
                penalty,
                method=self.method,
                calibration=None if samples is None else samples.calibration,
                seed=self.seed,
            )

    def labelled(self) -> Samples | None:
        """Read the samples, or return None.

        Raise :class:`DimsweepError` for a file without samples.
        """
        if self.samples is None:
            return None
        with naming_place("workload.samples"):
            return read_samples(find_file(self.samples))

    def serve(self, restructured: Restructured, cluster: Cluster) -> dimsweep.engine.Workload:
        """Return the workload of ``cluster`` that serves the restructured network."""
        with naming_key("workload"):
            return inference(
                restructured,
                cluster.topology.sizes,
                batch=self.batch,
                requests=self.requests,
                value=self.value,
            )

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        restructured, samples = self.restructured(cluster), self.labelled()
        accuracy = None
        if samples is not None and len(samples.labels):
            with naming_place("workload.samples"):
                accuracy = restructured.network.accuracy(samples.inputs, samples.labels)
        served = self.batch * self.requests
        return replace(
            self.serve(restructured, cluster), amount=Amount(served, 0, 0.0, accuracy=accuracy)
        )
