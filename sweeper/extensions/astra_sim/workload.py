"""ASTRA-sim's input files as a workload: every trial of a study gets ASTRA-sim's cycle counts."""

from pathlib import Path

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, Fidelity, Program, naming_place
from dimsweep.engine.extensions.astra_sim import lower_astra_for_sweep
from dimsweep.engine.formats.astra_sim import (
    Options,
    read_inputs,
    read_ranks,
    read_workload,
    with_noted_groups,
)
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.part import FileName, Flag, WholeNumber
from dimsweep.sweeper.places import find_file


class AstraSim(Workload):
    """ASTRA-sim's input files, on the network.yml of ``topology.file``.

    ``traces`` is the PREFIX of PREFIX.<rank>.et, or one .et file for all ranks; ``system`` is
    system.json, ``memory`` memory.json, ``groups`` comm_group.json. The other keys are options of
    ASTRA-sim's command line.
    """

    traces: FileName
    system: FileName
    memory: FileName | None = None
    groups: FileName | None = None
    queues_per_dim: WholeNumber = 1
    injection_scale: float = 1.0
    rendezvous: Flag = False
    congestion_aware: Flag = False

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        raise DimsweepError(
            "ASTRA-sim's inputs need ASTRA-sim's model",
            where="workload",
            hint="workload=chakra reads the same traces",
            code="unsupported",
        )

    def program(
        self, cluster: Cluster, *, fidelity: Fidelity, fold: bool, network: str | None
    ) -> Program:
        """Return the program of these inputs on ``network``, the path of a network.yml.

        Bandwidths and latencies are the cluster's; nothing else of dimsweep's model applies.
        """
        if network is None:
            raise DimsweepError(
                "ASTRA-sim's inputs need ASTRA-sim's network file",
                where="topology.file",
                hint="topology=astra_sim topology.file=network.yml",
                code="missing",
            )
        for where, given in (
            ("network.degrade", cluster.network.degrade),
            ("other_npus", cluster.other_npus),
        ):
            if given:
                raise DimsweepError(
                    "ASTRA-sim's model has no slow or failed links, and no different NPUs",
                    where=where,
                    hint="workload=chakra reads the same traces",
                    code="unsupported",
                )
        with naming_place("workload"):
            options = Options(
                self.queues_per_dim, self.injection_scale, self.rendezvous, self.congestion_aware
            )
            files = (
                find_file(self.system),
                find_file(network),
                _file(self.memory),
                _file(self.groups),
            )
            inputs = read_inputs(*files, options)
            traces, n = find_file(self.traces), inputs.network.n_npus
            nodes = read_ranks([traces] * n) if traces.is_file() else read_workload(traces, n)
            return lower_astra_for_sweep(*with_noted_groups(inputs, nodes), cluster)


def _file(path: str | None) -> Path | None:
    return None if path is None else find_file(path)
