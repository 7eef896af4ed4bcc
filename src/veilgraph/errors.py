"""Every error that veilgraph raises on purpose.

    VeilgraphError
    ├── BudgetError        an epsilon or a number of sampled features that cannot be
    ├── SchemaError        a schema that contradicts itself, or a file that is not one
    ├── DomainError        a value outside its declared domain (the value itself is withheld: it is private)
    ├── GraphError         edges, masks or splits that do not fit together
    ├── CampaignError      a campaign that is altered, or does not give the guarantee that it states
    ├── ReportError        a report that does not fit its campaign
    ├── SendError          a report that could not be handed over to the collector
    ├── ReconstructionError  hops or clusters that the graph cannot give
    ├── FitError           a method that cannot be fitted, or was not fitted yet
    ├── RunError           an output folder, input file or device that cannot be used
    ├── StoreError         a store of reports that cannot be used
    │   ├── StoreFullError         no room is left: nothing was stored
    │   └── StoreUnavailableError  the database does not answer: try again
    └── MissingExtraError  an optional dependency is not installed

The command line prints the message on one line and exits with 2. A message names what is wrong and the
remedy. It never contains a private value: errors about private records name the column and the row only.
"""

from __future__ import annotations


class VeilgraphError(Exception):
    """Base of every error raised on purpose."""


class BudgetError(VeilgraphError, ValueError):
    """A privacy parameter that cannot be."""


class SchemaError(VeilgraphError, ValueError):
    """A schema that contradicts itself or cannot be read."""


class DomainError(VeilgraphError, ValueError):
    """A private value outside its declared domain; says where, never what."""


class GraphError(VeilgraphError, ValueError):
    """A graph, mask or split that does not fit."""


class CampaignError(VeilgraphError, ValueError):
    """A campaign that is altered, contradicts itself, or does not give the guarantee that it states."""


class ReportError(VeilgraphError, ValueError):
    """A report that does not fit its campaign."""


class SendError(VeilgraphError):
    """A report that could not be handed over to the collector."""


class ReconstructionError(VeilgraphError, ValueError):
    """A reconstruction that the graph or the reports cannot give."""


class FitError(VeilgraphError, ValueError):
    """A method that cannot be fitted, or was asked before it was fitted."""


class RunError(VeilgraphError):
    """A folder, file or device that a run cannot use."""


class StoreError(VeilgraphError):
    """A store of reports that cannot be used; never says what it was given."""


class StoreFullError(StoreError):
    """No room is left: nothing was stored."""


class StoreUnavailableError(StoreError):
    """The database does not answer: what was sent may be sent again."""


class MissingExtraError(VeilgraphError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"this needs {module}, which is not installed: pip install 'veilgraph[{extra}]'")
        self._given = module, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """For another process."""
        return MissingExtraError, self._given
