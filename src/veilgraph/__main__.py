"""`python -m veilgraph`."""

import sys

from veilgraph.cli import main

sys.exit(main())
