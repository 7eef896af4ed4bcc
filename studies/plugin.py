"""Registers the methods of the studies: `veilgraph --import studies/plugin.py`, from the root of a checkout."""

from studies.methods import register

register()
