"""What a campaign asks about: columns of a record, and classes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from veilgraph.client.reading import are_distinct, read_list, read_number, read_object, read_text, read_whole
from veilgraph.client.refusals import CampaignError


class Schema(NamedTuple):
    """Names and answers of all questions. `group` columns in a row are merged to one feature."""

    columns: tuple[dict[str, Any], ...]
    group: int
    label_name: str
    classes: tuple[str, ...]

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Schema:
        """Read the schema; refuse names, and classes, that look alike."""
        label = read_object(stated["label"], "classes name", "schema.label")
        columns = tuple(_column(entry) for entry in read_list(stated["columns"], "schema.columns", 0))
        group = read_whole(stated["group"], "schema.group")
        if group > 1 and {_size(column) for column in columns} != {2}:
            raise CampaignError("the campaign merges columns that are not binary")
        classes = tuple(read_text(name, "a class") for name in read_list(label["classes"], "schema.label.classes"))
        schema = cls(columns, group, read_text(label["name"], "schema.label.name"), classes)
        names = [*(column["name"] for column in columns), schema.label_name]
        if not are_distinct(names) or not are_distinct(classes) or len(classes) < 2:
            raise CampaignError("the campaign declares a name twice, or two that look alike, or fewer than two classes")
        return schema

    @property
    def sizes(self) -> list[int]:
        """Number of values of each feature."""
        return [_size(column) for column in self.columns][:: self.group]

    @property
    def answers(self) -> dict[str, tuple[str, ...]]:
        """Declared answers of each question by its name; none for numbers."""
        return {column["name"]: tuple(column.get("values", ())) for column in self.columns} | {
            self.label_name: self.classes
        }


def _column(entry: object) -> dict[str, Any]:
    if isinstance(entry, dict) and "edges" in entry:
        is_whole = entry.get("whole") is True
        parts = read_object(entry, "edges name whole" if is_whole else "edges name", "a column")
        edges = [read_number(edge, "an edge") for edge in read_list(parts["edges"], "edges")]
        if len(edges) < 3 or not all(low < high for low, high in pairwise(edges)):
            raise CampaignError("a column's edges must be 3 or more, and rise")
        if is_whole and not all(abs(edge) == float("inf") or edge.is_integer() for edge in edges):
            raise CampaignError("the edges of whole numbers must be whole")
    else:
        parts = read_object(entry, "name values", "a column")
        values = [read_text(value, "a value", min_length=0) for value in read_list(parts["values"], "values")]
        if len(values) < 2 or not are_distinct(values):
            raise CampaignError("a column's values must be 2 or more, and no two of them look alike")
    read_text(parts["name"], "a column's name")
    return parts


def _size(column: Mapping[str, Any]) -> int:
    return len(column["edges"]) - 1 if "edges" in column else len(column["values"])
