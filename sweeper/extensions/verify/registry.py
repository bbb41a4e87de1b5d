"""The registry of verifications that plug-ins add."""

from dimsweep.engine.registry import Registry
from dimsweep.sweeper.extensions.verify import Verification

#: Verifications by name: ``dimsweep verify NAME`` runs the command of its target.
VERIFICATIONS: Registry[Verification] = Registry("verification")
