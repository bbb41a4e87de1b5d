"""Synthetic traces: what jobs have in common is learnt, and jobs that nobody has are written.

from engine.synthesis import Job, learn, synthesise
"""

from engine.synthesis.job import Job
from engine.synthesis.membership import distance, membership
from engine.synthesis.model import TraceModel, learn
from engine.synthesis.model_file import read_model, write_model
from engine.synthesis.obfuscate import obfuscate
from engine.synthesis.synthesise import Synthesised, synthesise

__all__ = [
    "Job",
    "Synthesised",
    "TraceModel",
    "distance",
    "learn",
    "membership",
    "obfuscate",
    "read_model",
    "synthesise",
    "write_model",
]
