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
_VALUE = "a value of a configuration, whose keys are tried one by one elsewhere"
_DESIGN = "a parameter's value, of a text that a door's reader gave it"

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
    "sweeper.part.bounded_parser": _MADE,
    "sweeper.part.quantity_parser": _MADE,
    "sweeper.part.list_parser": _MADE,
    **dict.fromkeys(
        (
            "sweeper.part.parse_npu_numbers",
            "sweeper.config.jobs._parse_job",
            "sweeper.config.network._parse_placement",
            "sweeper.config.npu._parse_knot",
            "sweeper.config.npu._parse_npu",
            "sweeper.config.npu._parse_npu_cost",
            "sweeper.config.npu._parse_systolic",
        ),
        _VALUE,
    ),
    **dict.fromkeys(
        (
            "sweeper.space.design._read_choice",
            "sweeper.space.design._read_range",
            "sweeper.space.design._read_value",
        ),
        _DESIGN,
    ),
    "sweeper.config.sources.read_values": _OURS,
    "sweeper.study.rules._read_machines": _OURS,
    "sweeper.extensions.verify.atop.read_prices": _OURS,
    "sweeper.extensions.verify.clusters.ranked._find_capacity": _OURS,
    "sweeper.ledger.shelf.Shelf._read_rows": "rows of a file that a door's reader opened",
    "sweeper.run.executor.cluster._parse_node": "what Ray says of a node",
    "sweeper.study.restore.parse_split": "columns of a row that a door's reader gave it",
    "engine.fingerprint.fingerprint_of_modules": "our own modules, if code is loaded",
    "engine.kernels.messages.phases.Phases._read_chunk": "chunks of a program",
    "engine.kernels.core.compiling._load": "compiled code",
    "sweeper.cli.doctor._names": "it passes on the names of plug-ins",
    "sweeper.cli.main._leave_pipe": "it opens the null device",
    "sweeper.study.plugin_checks._find_cached_fault": "a verdict that it wrote itself",
    "sweeper.config.explain._options_mentioning": "any bytes of configurations, for a word",
    "sweeper.draw.canvas.reduced": "a picture that was just drawn",
    "sweeper.config.explain._find_misplaced_in_file": "a file that Hydra has read, for an error",
    "sweeper.report.answers._describe_remaining": "a quantity of a record that units.parse checks",
    "sweeper.ledger.record._parse_frontier": "a part of a record, whose types Pydantic checks",
    "sweeper.ledger.rows.Column._pattern": "the name of a column of ours, once a process",
    "sweeper.ledger.place.create": "it writes",
    "sweeper.places._may_name_plugins": "metadata of installed packages, once a process",
    "sweeper.run.executor.cluster._print_if_killed": _OWN,
    "sweeper.run.executor.cluster._silence_stderr": _OWN,
    "sweeper.run.executor.evaluate._unpack_outcome": _OWN,
    "sweeper.run.executor.guest.pack": _OWN,
    "sweeper.run.executor.guest.sources": _OWN,
    "sweeper.run.executor.guest.unpack": _OWN,
    "sweeper.run.executor.worker.Luggage.pack": _OWN,
    "sweeper.run.executor.worker._data_bytes": "what Linux tells of a process",
    "sweeper.extensions.verify.files.StudyFiles.title": "a study's comment, whatever bytes it has",
    "sweeper.extensions.verify.published.read_rows": "rows that it has just swept",
}
