"""The command line: one command per library verb, no logic of its own."""

from veilgraph.cli.app import main, run_app

__all__ = ["main", "run_app"]
