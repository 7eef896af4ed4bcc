"""A private record or neighbour list: its codes, and what chance makes of them. No error shows a private value."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from veilgraph.client.question import Question
from veilgraph.client.reading import T
from veilgraph.client.refusals import CampaignError, DomainError, RunError
from veilgraph.client.series import Memory, Series, SeriesFeatures
from veilgraph.client.words import Answers, ReportedFeatures, ReportedLabel, Word, choose, system_word, uniform_below

_ENTERED_NUMBER = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")


def neighbour_names(neighbours: Iterable[str]) -> tuple[str, ...]:
    """Read a neighbour list; refuse an entry that is no text, whatever is published."""
    names = tuple(neighbours)
    if not all(isinstance(name, str) for name in names):
        raise DomainError("a neighbour is not named by text (value withheld)")
    return names


def encode(question: Question, record: Mapping[str, Any]) -> tuple[Answers | None, int | None]:
    """Return the codes of the features and of the label; refuse undeclared values, naming only the column.

    The code of a question that is left out is None, and so is that of merged columns if one of them is left out.
    """
    private = PrivateRecord(record)
    del record
    return withhold_details(lambda: encode_record(question, private.value))


def encode_record(question: Question, record: Mapping[str, Any]) -> tuple[Answers | None, int | None]:
    """Return the codes of a record; its errors may still quote values in their causes."""
    features = label = None
    if question.features is not None:
        codes = [encode_value(column, record) for column in question.columns]
        starts = range(0, len(codes), question.group)
        features = tuple(_merged_code(codes[start : start + question.group]) for start in starts)
    if question.label is not None:
        label = encode_value({"name": question.label_name, "values": question.classes}, record)
    if features is None and label is None:
        raise DomainError("the record leaves out everything that is asked")
    return features, label


def _merged_code(codes: Sequence[int | None]) -> int | None:
    """Return the OR of the columns of a feature; None if one is left out."""
    given = [code for code in codes if code is not None]
    return max(given) if len(given) == len(codes) else None


def randomize(
    question: Question, features: Answers | None, label: int | None, *, word: Word | None = None
) -> tuple[ReportedFeatures | None, ReportedLabel | None]:
    """Randomize codes, with words in the order that this file's docstring defines.

    Args:
        question: a verified campaign.
        features: the codes of the features, None for one that is left out; or None.
        label: the code of the label, or None.
        word: source of words; default: the operating system. Other sources are for tests.

    Returns:
        A code for each feature, or None for one that is not asked; and the code of a class, or the codes of a set.
    """
    word = word or system_word
    if isinstance(question.label, Series) or isinstance(question.features, SeriesFeatures):
        raise CampaignError("a series is reported wave by wave")
    reported = None
    if features is not None and question.features is not None:
        pairs = zip(features, question.features.sizes, strict=True)
        values = tuple(uniform_below(size, word) if code is None else code for code, size in pairs)
        reported = question.features.report(values, word)
    response = None if label is None or question.label is None else question.label.report(label, word)
    return reported, response


def randomize_wave(
    question: Question, memory: Memory, features: Answers | None, label: int | None, *, word: Word | None = None
) -> Memory:
    """Return the memory with the report of the open wave about codes; an answered wave is never drawn again.

    A value beyond those that the series answers counts as no change. Refusing it would reveal the change.
    """
    wave, word = open_wave(question, memory), word or system_word
    if wave in memory.waves:
        return memory
    chosen = memory.features
    if isinstance(question.features, SeriesFeatures) and features is not None:
        series = question.features.series
        if not chosen:
            taken = choose(question.features.sampled, len(series), word)
            chosen = {i: Memory() for i, is_taken in enumerate(taken) if is_taken}
        chosen = {i: series[i].answer(kept, features[i], wave, word) for i, kept in chosen.items()}
    if isinstance(question.label, Series) and label is not None:
        memory = question.label.answer(memory, label, wave, word)
    return memory._replace(features=chosen)


def open_wave(question: Question, memory: Memory) -> int:
    """Return the number of the open wave; refuse a wave before one that was answered."""
    wave = question.notice.wave
    if question.waves is None or wave is None:
        raise CampaignError("no wave of the campaign is open")
    if wave not in memory.waves and wave < max(memory.waves, default=0):
        raise CampaignError(f"wave {wave} is over: this device has answered a later one")
    return wave


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
