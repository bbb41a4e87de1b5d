"""The fabric and the defaults of Ultra Ethernet's public simulator (ultraethernet/uet-htsim)."""

from dimsweep.engine.extensions.uet_htsim.experiment import Experiment, Options, Tree
