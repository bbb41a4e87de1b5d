"""What is wrong with the traces of a job: in each, and between the ranks."""

from engine.formats.chakra.lint.job import lint_job
from engine.formats.chakra.lint.trace import Finding, repaired

__all__ = [
    "Finding",
    "lint_job",
    "repaired",
]
