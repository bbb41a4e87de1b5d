"""Synthetic traces: learn the common structure of jobs' traces, and synthesise traces of new jobs.

from dimsweep.engine.extensions.synthesis import Job, learn, synthesise
"""

from dimsweep.engine.extensions.synthesis.job import Job
from dimsweep.engine.extensions.synthesis.model import TraceModel, learn, read_model, write_model
from dimsweep.engine.extensions.synthesis.obfuscate import obfuscate
from dimsweep.engine.extensions.synthesis.synthesise import (
    Synthesised,
    distance,
    membership,
    synthesise,
)
