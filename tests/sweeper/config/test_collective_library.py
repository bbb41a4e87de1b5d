"""The keys of a collective library and of measurements."""

from pathlib import Path

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from tests.support.refused import refused

TABLE = "op,gpus,nodes,bytes,time_us\nall_reduce,8,1,1024,12\n"


def test_nccl_knows_the_gpu_whose_kernels_were_measured() -> None:
    for words, gpu in ((["npu=h100"], "h100"), (["npu=h100", "collective.gpu=b200"], "b200")):
        config = compose(["topology=hgx_h100", "collective=nccl", *words]).config
        library = build_cluster(config).collectives.library
        assert library is not None and library.gpu == gpu


def test_a_gpu_that_is_not_told_is_refused() -> None:
    composed = compose(["topology=hgx_a100", "collective=nccl", "npu.kernels=null"])
    with refused("collective.gpu", "missing", "npu.kernels"):
        build_program(composed.config)


def test_another_library_is_refused() -> None:
    config = compose(["collective.library=nccI"]).config
    with refused("collective.library", "unknown-name", "did you mean 'nccl'"):
        build_program(config)


def test_a_row_depends_on_the_measurements(tmp_path: Path) -> None:
    file = tmp_path / "ours.csv"
    file.write_text(TABLE)
    config = compose([f"collective.measured={file}"]).config
    assert config.files()["collective.measured"] == str(file)
    timings = build_cluster(config).collectives.timings
    assert timings is not None and len(timings.timings) == 1


def test_a_file_without_rows_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "ours.csv"
    file.write_text(TABLE.splitlines()[0])
    config = compose([f"collective.measured={file}"]).config
    with refused("ours.csv", None, "collective.measured"):
        build_cluster(config)
