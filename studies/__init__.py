"""Studies that we run from a checkout: how well methods do, and what attacks achieve. They are not in the package."""

import veilgraph  # noqa: F401  # before torch: it sets how threads wait for each other
