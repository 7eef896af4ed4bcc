"""The same as `veilgraph bench`."""

import sys

from veilgraph.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
