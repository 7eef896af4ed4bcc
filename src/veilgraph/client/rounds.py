"""What a device remembers of a series, in its store: permanent answers by value, which are private."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from veilgraph.client.mechanisms import are_codes
from veilgraph.client.question import Question
from veilgraph.client.reading import canonical_json, read_json
from veilgraph.client.record import PrivateRecord, encode_record, open_wave, randomize_wave, withhold_details
from veilgraph.client.refusals import RunError
from veilgraph.client.series import Memory, Series, SeriesFeatures
from veilgraph.client.store import damaged_file, write_text


def report_of_wave(
    question: Question, report: Mapping[str, Any], folder: Path, private: PrivateRecord, *, is_first: bool = False
) -> dict[str, Any]:
    """Return the report of the open wave, drawn once; what the device remembers is on disk before it is returned."""
    hashed = hashlib.sha256(report["node"].encode()).hexdigest()[:32]
    path = folder / f"{question.id}.{hashed}.memory.json"
    memory = _read_memory(path, question, is_first=is_first)
    wave = open_wave(question, memory)
    if wave not in memory.waves:  # otherwise the record is not read
        before = memory
        memory = withhold_details(lambda: randomize_wave(question, before, *encode_record(question, private.value)))
        write_text(path, canonical_json(_memory_document(memory)), replace=True)
    features = None
    if isinstance(question.features, SeriesFeatures):
        codes = {i: feature.reports[wave] for i, feature in memory.features.items()}
        features = [codes.get(i) for i in range(len(question.features.series))]
    return {**report, "features": features, "label": memory.reports.get(wave), "wave": wave}


def _memory_document(memory: Memory) -> dict[str, Any]:
    document: dict[str, Any] = {
        "answers": {str(value): answer for value, answer in memory.answers.items()},
        "current": memory.current,
        "reports": {str(number): reported for number, reported in memory.reports.items()},
    }
    if memory.features:
        document["features"] = {str(i): _memory_document(feature) for i, feature in memory.features.items()}
    return document


def _read_memory(path: Path, question: Question, *, is_first: bool) -> Memory:
    """Read what the device remembers of a series. Once a wave was answered it must be there: fail closed."""
    try:
        document = read_json(path.read_bytes())
    except FileNotFoundError:
        if is_first:
            return Memory()
        raise damaged_file(path) from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise damaged_file(path) from None
    with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
        memory, features = _memory(document), question.features
        series = features.series if isinstance(features, SeriesFeatures) else ()
        if (
            memory.waves
            and (not memory.reports or (isinstance(question.label, Series) and _remembers(memory, question.label)))
            and len(memory.features) == (features.sampled if isinstance(features, SeriesFeatures) else 0)
            and all(0 <= i < len(series) for i in memory.features)
            and all(_remembers(kept, series[i], left_out=True) for i, kept in memory.features.items())
            and all(set(kept.reports) == memory.waves for kept in memory.features.values())
        ):
            return memory
    raise damaged_file(path)


def _memory(document: Mapping[str, Any]) -> Memory:
    answers, reports = ({int(key): value for key, value in document[name].items()} for name in ("answers", "reports"))
    features = {int(i): _memory(stated) for i, stated in document.get("features", {}).items()}
    return Memory(answers, document["current"], reports, features)


def _remembers(memory: Memory, series: Series, *, left_out: bool = False) -> bool:
    """Return whether a memory is one of a question; only a feature may be left out."""
    size = series.permanent.domain_size
    values, codes = [*memory.answers, memory.current], [*memory.answers.values(), *memory.reports.values()]
    return (
        are_codes(values, [size + left_out] * len(values))
        and are_codes(codes, [size] * len(codes))
        and memory.current in memory.answers
        and len(memory.answers) <= series.values
        and bool(memory.reports)
        and all(1 <= wave <= series.waves for wave in memory.reports)
    )
