"""A private record or neighbour list: its codes, and what chance makes of them. No error shows a private value."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from veilgraph.client.reading import T
from veilgraph.client.refusals import DomainError, RunError
from veilgraph.client.schema import Schema
from veilgraph.client.words import Answers

RecordCodes = tuple[Answers | None, int | None]

_ENTERED_NUMBER = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")


def neighbour_names(neighbours: Iterable[str]) -> tuple[str, ...]:
    """Read a neighbour list; refuse an entry that is no text, whatever is published."""
    names = tuple(neighbours)
    if not all(isinstance(name, str) for name in names):
        raise DomainError("a neighbour is not named by text (value withheld)")
    return names


def encode_record(schema: Schema, record: Mapping[str, Any], *, features: bool, label: bool) -> RecordCodes:
    """Return the codes of the features and of the label that are asked; its errors may quote values in their causes.

    The code of a question that is left out is None. So is the code of merged columns if one of them is left out.
    """
    given = of_label = None
    if features:
        codes = [encode_value(column, record) for column in schema.columns]
        starts = range(0, len(codes), schema.group)
        given = tuple(_merged_code(codes[start : start + schema.group]) for start in starts)
    if label:
        of_label = encode_value({"name": schema.label_name, "values": schema.classes}, record)
    if given is None and of_label is None:
        raise DomainError("the record leaves out everything that is asked")
    return given, of_label


def _merged_code(codes: Sequence[int | None]) -> int | None:
    """Return the OR of the columns of a feature; None if one is left out."""
    given = [code for code in codes if code is not None]
    return max(given) if len(given) == len(codes) else None


class PrivateRecord(NamedTuple):
    """A private record in a local variable, which tracebacks may show."""

    value: Mapping[str, Any]

    def __repr__(self) -> str:
        return "<private, withheld>"


class PrivateList(NamedTuple):
    """A neighbour list in a local variable, which tracebacks may show."""

    value: Iterable[str]

    def __repr__(self) -> str:
        return "<private, withheld>"


def withhold_details(work: Callable[[], T]) -> T:
    """Return the result of work on private values. Its errors keep neither their causes nor the frames of the work."""
    failure: Exception
    try:
        return work()
    except (DomainError, RunError) as error:
        failure = type(error)(str(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, it may quote a value)
        failure = DomainError(f"the record cannot be used: {type(error).__name__} (details withheld)")
    raise failure


def encode_value(column: Mapping[str, Any], record: Mapping[str, Any]) -> int | None:
    """Return the code of a column's value in a raw record; None if it is left out, which must be said."""
    name = column["name"]
    if name not in record:
        raise DomainError(f"the record has no '{name}', which the campaign asks; give a value, or None to leave it out")
    if record[name] is None:
        return None
    if "edges" in column:
        return _bin(name, [float(edge) for edge in column["edges"]], record[name], whole="whole" in column)
    for text in _texts(record[name]):
        if text in column["values"]:
            code: int = column["values"].index(text)
            return code
    raise DomainError(f"'{name}': not one of the {len(column['values'])} declared values (value withheld)")


def _bin(name: str, edges: list[float], value: object, *, whole: bool) -> int:
    number = _readable_number(value)
    if number is None:
        raise DomainError(
            f"'{name}': it has bins, so its value must be a number, with the digits 0 to 9 and a decimal point "
            "(value withheld)"
        )
    if whole and abs(number) != float("inf") and not number.is_integer():
        raise DomainError(f"'{name}': its value must be a whole number (value withheld)")
    if not edges[0] <= number <= edges[-1] or number in (float("inf"), float("-inf")):
        raise DomainError(f"'{name}': outside the declared range {edges[0]:g}..{edges[-1]:g} (value withheld)")
    return min(bisect_right(edges, number), len(edges) - 1) - 1


def _readable_number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if len(value) <= 400 and _ENTERED_NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**1023:
        return None
    return float(value)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts by which a value may be declared: 1 and 1.0 are the same, True is 'True' or '1'."""
    if isinstance(value, bool):
        yield from (str(value), str(int(value)))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int) and abs(value) < 2**64:
        yield str(value)
    elif isinstance(value, float):
        yield str(int(value)) if value.is_integer() else str(value)
