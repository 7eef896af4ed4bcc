"""Questions about a record in several rounds. A device keeps permanent answers by value, which are private."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, NoReturn

from veilgraph.client.epsilons import slack
from veilgraph.client.mechanisms import SampledFeatures, Table, are_codes, read_features, read_label, read_table
from veilgraph.client.once import Once, RecordQuestions, check_record_guarantee
from veilgraph.client.reading import canonical_json, check_epsilon, read_json, read_number, read_object, read_whole
from veilgraph.client.record import RecordCodes, withhold_details
from veilgraph.client.refusals import CampaignError, RunError
from veilgraph.client.schema import Schema
from veilgraph.client.series import MAX_ROUNDS, Memory, Series, SeriesFeatures, read_series_features
from veilgraph.client.store import damaged_file, hash_of_node, locked_store, write_text
from veilgraph.client.words import Answers, Word, choose, system_word

_WITHDRAWN = {"withdrawn": True}
"""What stands in the place of a memory after a withdrawal: no answer, and no round is answered again."""


@dataclass(frozen=True)
class Rounds(RecordQuestions):
    """Questions about a record, asked again in each round, and answered by L-GRR."""

    features: SeriesFeatures | None
    label: Series | None
    number: int
    """Number of rounds."""
    costs: Mapping[str, Decimal]
    """Epsilons of all rounds, features and label together, by the relation between two histories."""

    @classmethod
    def read(cls, bound: Mapping[str, Any], schema: Schema) -> Rounds:
        """Read the questions; refuse tables that do not give every epsilon that the campaign states."""
        permanent = read_features(bound["features"], schema.sizes, ("grr",))
        label = read_label(bound["label"], len(schema.classes))
        has_features = isinstance(permanent, SampledFeatures)
        keys = (
            "count epsilon features guarantee table values" if has_features else "count epsilon guarantee table values"
        )
        parts = read_object(bound["rounds"], keys, "rounds")
        if not (label is None or isinstance(label, Table)):
            raise CampaignError("the label of a series is by randomized response")
        count, values = read_whole(parts["count"], "rounds.count"), read_whole(parts["values"], "rounds.values")
        if count > MAX_ROUNDS or (label is not None and values > label.domain_size):
            raise CampaignError(f"a series has at most {MAX_ROUNDS} rounds, and no more values than there are classes")
        features = response = None
        if label is not None:
            check_epsilon(parts["epsilon"], "rounds.epsilon")
            response = Series(label, read_table(parts["table"], label.domain_size), count, values, optional=False)
        elif (parts["epsilon"], parts["table"]) != (None, None):
            raise CampaignError("the series has a table of a label that it does not ask for")
        if isinstance(permanent, SampledFeatures):
            features = read_series_features(parts["features"], permanent, count, values)
        check_record_guarantee(bound["guarantee"], features, response)
        with localcontext(prec=60):
            costs = [part.costs for part in (features, response) if part is not None]
            total = {key: sum((part[key] for part in costs), Decimal(0)) for key in costs[0]}
        stated = read_object(parts["guarantee"], "any_histories same_pattern unchanged", "rounds.guarantee")
        for key, epsilon in total.items():
            if abs(Decimal(read_number(stated[key], "an epsilon")) - epsilon) > slack(epsilon):
                raise CampaignError(f"the tables of the rounds do not give the guarantee that is stated: {key}")
        return cls(features, response, count, total)

    @property
    def longest(self) -> dict[str, Any]:
        """The parts of a report that no other one is longer than, as text."""
        return super().longest | {"round": self.number}

    def fits(self, report: Mapping[str, Any]) -> bool:
        """Return whether a stored report is one of these questions."""
        return "round" in report and super().fits(report)

    def check_notice(self, opened: int | None) -> None:
        """Refuse a notice that opens a round that the campaign does not have."""
        if opened is not None and opened > self.number:
            raise CampaignError("the campaign does not have the round that is open")

    def randomize(self, features: Answers | None, label: int | None, word: Word) -> NoReturn:
        """Refuse to report codes without what the device remembers."""
        raise CampaignError("a series is reported round by round")

    def open_round(self, memory: Memory, opened: int | None) -> int:
        """Return the number of the open round; refuse a round before one that was answered."""
        if opened is None:
            raise CampaignError("no round of the campaign is open")
        if opened not in memory.rounds and opened < max(memory.rounds, default=0):
            raise CampaignError(f"round {opened} is over: this device has answered a later one")
        return opened

    def remember(
        self,
        memory: Memory,
        opened: int | None,
        codes: Callable[[], RecordCodes],
        word: Word = system_word,
    ) -> Memory:
        """Return the memory with the report of the open round about codes; an answered round is never drawn again.

        A value beyond those that the series answers counts as no change. Refusing it would reveal the change.
        """
        number = self.open_round(memory, opened)
        if number in memory.rounds:  # the record is not read
            return memory
        features, label = codes()
        chosen = memory.features
        if self.features is not None and features is not None:
            series = self.features.series
            if not chosen:
                taken = choose(self.features.sampled, len(series), word)
                chosen = {i: Memory() for i, is_taken in enumerate(taken) if is_taken}
            chosen = {i: series[i].answer(kept, features[i], number, word) for i, kept in chosen.items()}
        if self.label is not None and label is not None:
            memory = self.label.answer(memory, label, number, word)
        return memory._replace(features=chosen)

    def report(
        self, kept: Mapping[str, Any], codes: Callable[[], RecordCodes], memory: Path, opened: int | None
    ) -> dict[str, Any]:
        """Return the report of the open round, drawn once; what the device remembers is on disk before that."""
        before = _read_memory(memory, self, is_first="label" not in kept)
        number = self.open_round(before, opened)
        after = withhold_details(lambda: self.remember(before, opened, codes))
        if after is not before:
            write_text(memory, canonical_json(_memory_document(after)), replace=True)
        features = None
        if self.features is not None:
            reported = {i: feature.reports[number] for i, feature in after.features.items()}
            features = [reported.get(i) for i in range(len(self.features.series))]
        return {**kept, "features": features, "label": after.reports.get(number), "round": number}


def _memory_document(memory: Memory) -> dict[str, Any]:
    document: dict[str, Any] = {
        "answers": {str(value): answer for value, answer in memory.answers.items()},
        "current": memory.current,
        "reports": {str(number): reported for number, reported in memory.reports.items()},
    }
    if memory.features:
        document["features"] = {str(i): _memory_document(feature) for i, feature in memory.features.items()}
    return document


def memory_path(store: Path, campaign: str, node: str) -> Path:
    """Return the file in which a device remembers a series of a person."""
    return store / f"{campaign}.{hash_of_node(node)}.memory.json"


def forget(store: str | os.PathLike[str], campaign: str, node: str) -> None:
    """Replace what a device remembers of a person who has withdrawn from a series: true and permanent answers.

    The report of the first round stays beside it, and its cost counts.
    """
    if not re.fullmatch("[0-9a-f]{64}", campaign) or not memory_path(Path(store), campaign, node).exists():
        return
    with locked_store(Path(store)) as folder:
        write_text(memory_path(folder, campaign, node), canonical_json(_WITHDRAWN), replace=True)


def remembered_rounds(path: Path) -> Set[int]:
    """Return the rounds whose answers a file remembers; none if there is no file, or after a withdrawal."""
    try:
        document = read_json(path.read_bytes())
        return frozenset() if document == _WITHDRAWN else _memory(document).rounds
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise damaged_file(path) from None


def _read_memory(path: Path, asked: Rounds, *, is_first: bool) -> Memory:
    """Read the device's memory of a series. Once a round was answered, the memory must be there: fail closed."""
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
    if document == _WITHDRAWN:
        raise CampaignError("this person has withdrawn from the series, and answers no round of it any more")
    with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
        memory = _memory(document)
        series, sampled = ((), 0) if asked.features is None else asked.features
        if (
            memory.rounds
            and (not memory.reports or (asked.label is not None and _remembers(memory, asked.label)))
            and len(memory.features) == sampled
            and all(0 <= i < len(series) for i in memory.features)
            and all(_remembers(kept, series[i], left_out=True) for i, kept in memory.features.items())
            and all(set(kept.reports) == memory.rounds for kept in memory.features.values())
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
        and all(1 <= number <= series.rounds for number in memory.reports)
    )


def read_record_questions(bound: Mapping[str, Any], schema: Schema) -> Once | Rounds:
    """Read questions about a record, asked once or in rounds."""
    asked = (Once if bound["rounds"] is None else Rounds).read(bound, schema)
    if "neighbours" in bound:  # what follows, about neighbours
        is_label = bound["rounds"] is None and asked.features is None and not schema.columns
        if not is_label or bound["neighbours"] not in ("waves", "lists"):
            raise CampaignError("a series about private neighbours begins with the label alone, asked once")
    return asked
