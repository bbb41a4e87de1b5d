"""Synthetic traces: what jobs have in common is learnt, and jobs that nobody has are written.

from dimsweep.engine.synthesis import Job, learn, synthesise
"""

from dimsweep.engine.synthesis.job import Job
from dimsweep.engine.synthesis.membership import distance, membership
from dimsweep.engine.synthesis.model import TraceModel, learn
from dimsweep.engine.synthesis.model_file import read_model, write_model
from dimsweep.engine.synthesis.obfuscate import obfuscate
from dimsweep.engine.synthesis.synthesise import Synthesised, synthesise
