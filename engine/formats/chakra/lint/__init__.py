"""What is wrong with the traces of a job: in each, and between the ranks."""

from dimsweep.engine.formats.chakra.lint.job import lint_job
from dimsweep.engine.formats.chakra.lint.trace import Finding, repaired
