"""The command line: one command per library verb, no logic of its own."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Ctrl-C while the program itself is read is no error of the program."""
    try:
        from veilgraph.cli import app
    except KeyboardInterrupt:
        sys.stderr.write("stopped before it began: run the same command again\n")
        return 130
    return app.main(arguments)
