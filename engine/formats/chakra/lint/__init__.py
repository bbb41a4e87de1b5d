"""What is wrong with the traces of a job: in each, and between the ranks."""

from __future__ import annotations

from engine.formats.chakra.lint.job import lint_job

__all__ = ["lint_job"]
