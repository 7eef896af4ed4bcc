"""Exceptions of veilgraph.

    VeilgraphError
    ├── BudgetError          an invalid epsilon, number of sampled features, or mechanism
    ├── SchemaError          an inconsistent schema, or a file that is not a schema
    ├── DomainError          a private value outside its declared domain (the value is withheld)
    ├── GraphError           tables, edges, masks or splits that cannot be read or do not fit together
    ├── CampaignError        a campaign that was altered, or whose stated guarantee is wrong
    ├── ReportError          a report that does not fit its campaign
    ├── SendError            a report that could not be sent to the collector
    ├── ReconstructionError  a reconstruction that the graph or the reports do not allow
    ├── FitError             a method that cannot be fitted, or is not fitted yet
    ├── RunError             an output folder, input file or device that cannot be used
    ├── StoreError           a store of reports that cannot be used
    │   ├── StoreFullError         no space is left: nothing was stored
    │   └── StoreUnavailableError  the database does not answer: try again
    └── MissingExtraError    an optional dependency that is not installed

A message names what is wrong and the remedy. It never contains a private value: errors about private records name the
column and the row only. The command line prints the message on one line and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known ones, or nothing if none is near.

    >>> nearest_names("struture_only", ["rgnn", "structure_only"]), nearest_names("id", ["ID", "age"])
    ('; did you mean structure_only?', '; did you mean ID?')
    """
    names = {each.casefold(): each for each in known}
    near = [names[each] for each in get_close_matches(name.casefold(), list(names), n=2)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


class VeilgraphError(Exception):
    """Base class of all exceptions of veilgraph."""


class BudgetError(VeilgraphError, ValueError):
    """An invalid privacy parameter."""


class SchemaError(VeilgraphError, ValueError):
    """A schema that is inconsistent or cannot be read."""


class DomainError(VeilgraphError, ValueError):
    """A private value outside its declared domain. The message gives the place and withholds the value."""


class GraphError(VeilgraphError, ValueError):
    """Tables, edges, masks or splits that cannot be read or do not fit together. No message quotes a private cell."""


class CampaignError(VeilgraphError, ValueError):
    """A campaign that was altered, is inconsistent, or whose stated guarantee is wrong."""


class ReportError(VeilgraphError, ValueError):
    """A report that does not fit its campaign."""


class SendError(VeilgraphError):
    """A report that could not be sent to the collector."""


class ReconstructionError(VeilgraphError, ValueError):
    """A reconstruction that the graph or the reports do not allow."""


class FitError(VeilgraphError, ValueError):
    """A method that cannot be fitted, or is not fitted yet."""


class RunError(VeilgraphError):
    """A folder, file or device that cannot be used."""


class StoreError(VeilgraphError):
    """A store of reports that cannot be used. The message never contains a report."""


class StoreFullError(StoreError):
    """A store without space: nothing was stored."""


class StoreUnavailableError(StoreError):
    """A database that does not answer. The same reports may be sent again."""


class MissingExtraError(VeilgraphError, ImportError):
    """An optional dependency that is not installed.

    Args:
        module: the missing library.
        extra: the extra of veilgraph that installs it.
    """

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"this needs {module}, which is not installed: pip install 'veilgraph[{extra}]'")
        self._given = module, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """Pickle the arguments, not the message, so that the error can cross processes."""
        return MissingExtraError, self._given
