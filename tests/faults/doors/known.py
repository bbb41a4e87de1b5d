"""What leads to no door, or lies behind none, and why."""

_WRITTEN = "a place that is written to"
_IGNORED = "an option of ASTRA-sim's that changes nothing here"

# Parameters of commands, by their last word.
NO_DOOR = {
    **dict.fromkeys(
        ("--picture", "--pictures", "--timeline", "--front", "--evidence", "--page"), _WRITTEN
    ),
    **dict.fromkeys(("--csv", "--parquet", "--json", "--output", "--repair", "TARGET"), _WRITTEN),
    "measure FILE": _WRITTEN,
    "report --section": "a name of a section of a report",
    "calibrate --name": "a name of an option, of letters, digits, _ and -",
    **dict.fromkeys(("--num-passes", "--logging-configuration"), _IGNORED),
    **dict.fromkeys(("--compute-scale", "--comm-scale"), _IGNORED),
}
_OURS = "a file that the package brings along"
_THEIRS = "it writes, where the GPU is"
_OWN = "what one process of ours gives another"
_MADE = "it makes a parser, when its module is imported"

NO_READER = {
    "sweeper.api.results.Results.to_arrow": "what dimsweep.load reads",
    "sweeper.calibrate.bands.Bands.from_json": _OURS,
    "sweeper.calibrate.evidence._parse_field": _OURS,
    "sweeper.calibrate.evidence._read_table": _OURS,
    "sweeper.calibrate.measuring.Cases.__init__": _THEIRS,
    "sweeper.calibrate.measuring._write_table": _THEIRS,
    "sweeper.calibrate.measuring.recording_power": _THEIRS,
    "sweeper.cli.calibrate.measure_command": _OURS,
    "sweeper.extensions.verify.clusters.report.write_page": _OURS,
    "sweeper.extensions.verify.clusters.plans.read_entries": _OURS,
    "sweeper.part.bounded": _MADE,
    "sweeper.part.one_or_each": _MADE,
    "sweeper.part.quantity": _MADE,
    "engine.fingerprint.fingerprint_of_modules": "our own modules, if code is loaded",
    "engine.kernels.messages.phases.Phases._read_chunk": "chunks of a program",
    "engine.kernels.core.compiling._load": "compiled code",
    "sweeper.cli.doctor.check_plugin_command": "it loads a plug-in as configurations do",
    "sweeper.cli.doctor._names": "it passes on the names of plug-ins",
    "sweeper.cli.main._leave_pipe": "it opens the null device",
    "sweeper.study.plugin_checks._known_fault": "a verdict that it wrote itself",
    "sweeper.config.explain._described": "any bytes of configurations are searched for a word",
    "sweeper.draw.canvas.reduced": "a picture that was just drawn",
    "sweeper.config.explain._misplaced_in": "a file that Hydra has read, for an error",
    "sweeper.report.answers._left": "a quantity of a record, which units.parse refuses or takes",
    "sweeper.ledger.record._parse_frontier": "a part of a record, whose types Pydantic checks",
    "sweeper.ledger.rows.Column._pattern": "the name of a column of ours, once a process",
    "sweeper.ledger.place.create": "it writes",
    "sweeper.places._may_name_plugins": "metadata of installed packages, once a process",
    "sweeper.plugins._arrived": _OWN,
    "sweeper.run.executor.cluster._print_if_killed": _OWN,
    "sweeper.run.executor.cluster._silence_stderr": _OWN,
    "sweeper.run.executor.evaluate._unpack_outcome": _OWN,
    "sweeper.run.executor.guest.pack": _OWN,
    "sweeper.run.executor.guest.sources": _OWN,
    "sweeper.run.executor.guest.unpack": _OWN,
    "sweeper.run.executor.ray_inside.reload_environment": "the environment, by Ray",
    "sweeper.run.executor.worker.Luggage.pack": _OWN,
    "sweeper.run.executor.worker._data_bytes": "what Linux tells of a process",
    "sweeper.extensions.verify.command.verifications": "plug-ins that are installed",
    "sweeper.extensions.verify.files.StudyFiles.title": "a study's comment, whatever bytes it has",
    "sweeper.extensions.verify.published.read_rows": "rows that it has just swept",
}
