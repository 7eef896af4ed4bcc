"""Speed as ratios measured in one run; `python -m benchmarks`."""

import veilgraph  # noqa: F401  # before torch: it sets how threads wait for each other
