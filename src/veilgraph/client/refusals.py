"""Errors and warnings of a client. Those of the package are used where it is installed."""

from __future__ import annotations

try:
    from veilgraph.errors import CampaignError as CampaignError
    from veilgraph.errors import DomainError as DomainError
    from veilgraph.errors import RunError as RunError
    from veilgraph.errors import SendError as SendError
except ImportError:  # without the package

    class CampaignError(ValueError):  # type: ignore[no-redef]
        """A campaign that must not be answered."""

    class DomainError(ValueError):  # type: ignore[no-redef]
        """A private value outside its declared domain; the message names the column, never the value."""

    class RunError(Exception):  # type: ignore[no-redef]
        """A folder of reports that cannot be used."""

    class SendError(Exception):  # type: ignore[no-redef]
        """A report that could not be sent."""


class ClockWarning(UserWarning):
    """The clock of this device is wrong, or the clock of the collector."""


class NoticeWarning(UserWarning):
    """A notice promises less than the one that the person agreed to."""
