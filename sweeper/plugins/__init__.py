"""Plug-ins: files and modules of others that register blocks, algorithms, memories, and so on.

A plug-in is a Python file, or a module that can be imported, which registers something when it is
loaded (:class:`engine.registry.Registry`).  A configuration names it under ``plugins``; installed
packages name theirs as entry points of the group ``dimsweep.plugins``, and these are always loaded.
Its text goes with a study to the workers, which may be on machines that do not have it, and a
digest of the text is a part of what a row depends on.
"""

from dimsweep.sweeper.plugins.loading import load
