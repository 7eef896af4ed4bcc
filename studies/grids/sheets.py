"""Tables of the studies that have files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from studies.grids.differences import Tally
from veilgraph.pages.formatting import method_title
from veilgraph.pages.result_tables import Table


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table with its own files.

    Attributes:
        name: stem of the file names.
        table: table for people.
        records: unrounded numbers for programs; all records have the same keys.
    """

    name: str
    table: Table
    records: tuple[Mapping[str, Any], ...]


def tallied(name: str, title: str, tallies: Sequence[Tally]) -> Sheet | None:
    """Return wins and losses against other methods as a table, or None where nothing is compared."""
    if not tallies:
        return None
    columns = ("Against", "Clearly above", "Above, within noise", "Not above, within noise", "Clearly below")
    table = Table(
        title=title,
        columns=(*columns, "Mean difference, points"),
        text_columns=1,
        rows=tuple(
            (
                method_title(each.method),
                *map(str, (each.clearly_above, each.above, each.below, each.clearly_below)),
                each.mean_text,
            )
            for each in tallies
        ),
        note="Settings are counted. A difference is clear if the 95 % interval of Student's t, paired by seed, "
        "excludes zero; one to a published accuracy, if it is above two standard errors.",
    )
    return Sheet(name=name, table=table, records=tuple(asdict(each) for each in tallies))
