"""The fat trees and default settings of Ultra Ethernet's public simulator uet-htsim."""

from dimsweep.engine.extensions.uet_htsim.experiment import Experiment, Options, Tree
