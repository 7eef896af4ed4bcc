"""The wire form of a mechanism: its part of a campaign document, its reports as JSON values, and words for people.

Documents, collectors, tables and pages ask the mechanism for these, so none of them knows which mechanisms exist. A
mechanism inherits the form of its reports, such as `CodeReports`: JSON schema, check of what arrives, and packing.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import lt
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import CampaignError, DomainError, ReportError
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.strict_json import expect_choice, expect_number, expect_object, expect_whole, number_text

F = TypeVar("F")


class WireForm(Protocol):
    """What documents, collectors, tables and pages ask of a mechanism.

    Attributes:
        wire_name: name of the mechanism in documents.
    """

    wire_name: ClassVar[str]

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document, with the integers that decide every report."""

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report."""

    @property
    def longest_report(self) -> Any:
        """JSON values that no report is longer than."""

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer to a question."""


class PackedForm(WireForm, Protocol):
    """A wire form whose reports are rows of one array."""

    def check_report(self, value: object, where: str) -> Any:
        """Return JSON values as a report; refuse everything that is not exactly a report of this mechanism."""

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array for `count` reports, to be filled in."""

    def encode(self, reports: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
        """Return reports as rows of an array, as `randomize` draws them."""

    def decode(self, rows: NDArray[Any]) -> list[Any]:
        """Return rows of an array as reports: the inverse of `encode`."""


class FeatureForm(WireForm, Protocol):
    """The wire form of a mechanism for several features."""

    def check_report(self, value: object, names: Sequence[str]) -> tuple[int | None, ...]:
        """Return JSON values as the codes of a report, None for a feature without one; refuse everything else."""

    @property
    def num_features(self) -> int:
        """Number of features, d."""

    @property
    def sampled(self) -> int:
        """Number of features that a device picks, m."""

    @property
    def num_answered(self) -> int:
        """Number of features that a report answers."""

    @property
    def code_type(self) -> type[Any]:
        """Type of the codes in an array of reports."""

    def picked_channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of a feature that the device picked."""


def find_form(stated: object, forms: Mapping[str, type[F]], where: str) -> type[F]:
    """Return the mechanism that a part of a document names; refuse a name that clients do not know."""
    if not isinstance(stated, dict):
        raise CampaignError(f"{where} must be an object with the keys mechanism and epsilon")
    return expect_choice(stated.get("mechanism"), forms, f"{where}.mechanism")


def read_parts(stated: object, keys: set[str], where: str) -> tuple[dict[str, Any], float]:
    """Return a part of a document, which has exactly these keys besides mechanism and epsilon, and its epsilon."""
    parts = expect_object(stated, {"mechanism", "epsilon", *keys}, where)
    return parts, expect_number(parts["epsilon"], f"{where}.epsilon")


def check_integers(form: WireForm, stated: Mapping[str, Any], where: str) -> None:
    """Refuse a part of a document that differs from what follows from its epsilon."""
    # The epsilon itself is text, whose canonical form is checked for the whole document.
    if {**form.document, "epsilon": stated["epsilon"]} != dict(stated):
        raise CampaignError(f"{where} does not hold the integers that an epsilon of {stated['epsilon']} gives")


def chance_text(channel: SymmetricChannel) -> str:
    """Write the probability that a report names the true value.

    >>> from fractions import Fraction
    >>> chance_text(SymmetricChannel(domain_size=2, keep=Fraction(3, 4), other=Fraction(1, 4)))
    'a chance of 75.0 in 100'
    """
    return f"a chance of {in_100(float(channel.keep))}"


def in_100(chance: float) -> str:
    """Write a probability, rounded to the nearest tenth: the same on a card, on a page and in a campaign's texts.

    >>> in_100(0.8807970779778823)
    '88.1 in 100'
    """
    return f"{100 * chance:.1f} in 100"


def sampled_in_words(form: FeatureForm, question: str, *, again: str = "", rest: str) -> str:
    """Say to people which of several questions a device picks, and how it randomizes the answers to these.

    Args:
        form: the mechanism.
        question: the questions, with their number.
        again: what holds for the picked ones besides, after a comma.
        rest: what the report has about all others.
    """
    keeps = sorted(float(form.picked_channel(i).keep) for i in range(form.num_features))
    chance = " to ".join(dict.fromkeys(f"{100 * keep:.1f}" for keep in (keeps[0], keeps[-1])))
    truth = f"with a chance of {chance} in 100"
    if form.sampled == form.num_features:
        return f"The report has the true answer to each of {question} {truth}."
    return (
        f"Of {question} a device picks {form.sampled} at random{again}. The report has the true answer to a picked one "
        f"{truth}; {rest}."
    )


_MASK_BITS = 64
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")


class CodeReports:
    """Reports that are a code of a domain; many are an array of codes, [reports]."""

    domain_size: int

    @property
    def set_size(self) -> int:
        """1: a report names one value."""
        return 1

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array of codes for `count` reports."""
        return np.zeros(count, dtype=np.int64)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse reports that are not codes of the domain."""
        if reports.ndim != 1 or not np.issubdtype(reports.dtype, np.integer):
            raise DomainError(f"label reports have shape {reports.shape} and type {reports.dtype}: expected codes")
        if ((reports < 0) | (reports >= self.domain_size)).any():
            raise DomainError(f"a reported label is outside 0..{self.domain_size - 1}")

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report: a code."""
        return code_schema(self.domain_size)

    @property
    def longest_report(self) -> int:
        """JSON values that no report is longer than."""
        return self.domain_size - 1

    def check_report(self, value: object, where: str) -> int:
        """Return JSON values as a report; refuse everything that is not a code."""
        return check_code(value, self.domain_size, where)

    def encode(self, reports: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
        """Return codes as an array, [reports]."""
        return np.asarray(reports, dtype=np.int64)

    def decode(self, rows: NDArray[Any]) -> list[Any]:
        """Return the codes of an array, [reports]: the inverse of `encode`."""
        return list(rows.tolist())


class SetReports:
    """Reports that are a set of w codes of a domain.

    Many are an array of bit masks, [reports, ceil(k / 64)]: class c is bit c % 64 of word c // 64.
    """

    wire_name: ClassVar[str]
    domain_size: int
    epsilon: float
    table: Any

    @property
    def set_size(self) -> int:
        """Number of classes that a report names, w."""
        return int(self.table.size)

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document."""
        table = {"size": self.set_size, "table": self.table.document}
        return {"mechanism": self.wire_name, "epsilon": number_text(self.epsilon), **table}

    @classmethod
    def read(cls, stated: object, where: str, domain_size: int) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"size", "table"}, where)
        size = expect_whole(parts["size"], f"{where}.size", 1, domain_size - 1)
        mechanism: Any = cls(domain_size, epsilon, size)  # type: ignore[call-arg]  # of its subclasses
        check_integers(mechanism, parts, where)
        return mechanism  # type: ignore[no-any-return]

    def named(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which classes each report names, [people, classes]; no class where there is no report."""
        octets = np.ascontiguousarray(reports, dtype="<u8").view(np.uint8)
        bits = np.unpackbits(octets, axis=1, bitorder="little", count=self.domain_size)
        return bits.view(np.bool_)

    def encode(self, reports: Sequence[Any] | NDArray[Any]) -> NDArray[np.uint64]:
        """Return the bit masks [reports, words] of sets that are given as codes of classes."""
        if isinstance(reports, np.ndarray):
            codes, lengths = reports.ravel(), np.full(len(reports), reports.shape[1])
        else:
            codes = np.fromiter(itertools.chain.from_iterable(reports), dtype=np.int64)
            lengths = np.array(list(map(len, reports)), dtype=np.int64)
        if ((codes < 0) | (codes >= self.domain_size)).any():
            raise DomainError(f"a reported label is outside 0..{self.domain_size - 1}")
        named = np.zeros((len(reports), self.domain_size), dtype=np.bool_)
        named[np.repeat(np.arange(len(reports)), lengths), codes] = True
        return self._masks(named)

    def decode(self, rows: NDArray[Any]) -> list[tuple[int, ...]]:
        """Return the codes of the classes that each report names, in ascending order: the inverse of `encode`."""
        return [tuple(np.flatnonzero(row).tolist()) for row in self.named(rows)]

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array for `count` reports that names no class yet."""
        return np.zeros((count, _mask_words(self.domain_size)), dtype=np.uint64)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse reports that are not sets of w of the k classes, as bit masks."""
        shape = (len(reports), _mask_words(self.domain_size))
        if reports.shape != shape or reports.dtype != np.uint64:
            raise DomainError(
                f"label reports have shape {reports.shape} and type {reports.dtype}: "
                f"sets of {self.domain_size} classes are bit masks, uint64 {shape}"
            )
        spare = shape[1] * _MASK_BITS - self.domain_size
        unknown = reports[:, -1] >> np.uint64(_MASK_BITS - spare) if spare else np.zeros(0)
        if (self.named(reports).sum(axis=1) != self.set_size).any() or unknown.any():
            raise DomainError(f"a reported label is not a set of {self.set_size} of {self.domain_size} classes")

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report: a set of codes."""
        return set_schema(self.domain_size, self.set_size)

    @property
    def longest_report(self) -> list[int]:
        """JSON values that no report is longer than."""
        return list(range(self.domain_size - self.set_size, self.domain_size))

    def check_report(self, value: object, where: str) -> tuple[int, ...]:
        """Return JSON values as a report; refuse everything that is not a set of w codes."""
        return check_set(value, self.domain_size, self.set_size, where)

    def _masks(self, named: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Return bit masks [people, words] of indicators [people, classes]."""
        words = _mask_words(self.domain_size)
        padded = np.zeros((len(named), words * _MASK_BITS), dtype=np.bool_)
        padded[:, : self.domain_size] = named
        packed = np.packbits(padded, axis=1, bitorder="little").view("<u8")
        return packed.astype(np.uint64)


class CountReports:
    """Reports that are a count for each class; many are an array of int32, [reports, classes]."""

    num_classes: int
    largest: int

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array for `count` answers, all zero."""
        return np.zeros((count, self.num_classes), dtype=np.int32)

    def encode(self, reports: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
        """Return counts as an array, [answers, classes]."""
        return np.asarray(reports, dtype=np.int32)

    def decode(self, rows: NDArray[Any]) -> list[list[int]]:
        """Return the counts of an array, [answers, classes]: the inverse of `encode`."""
        return list(rows.tolist())

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of an answer: a count for each class."""
        return {
            "type": "array",
            "description": "a count for each class",
            "items": {"type": "integer", "minimum": -self.largest, "maximum": self.largest},
            "minItems": self.num_classes,
            "maxItems": self.num_classes,
        }

    @property
    def longest_report(self) -> list[int]:
        """JSON values that no report is longer than."""
        return [-self.largest] * self.num_classes

    def check_report(self, value: object, where: str) -> tuple[int, ...]:
        """Return JSON values as an answer; refuse everything that is not a count for each class."""
        largest = self.largest
        if (
            not isinstance(value, list)
            or len(value) != self.num_classes
            or not all(type(count) is int and -largest <= count <= largest for count in value)
        ):
            raise ReportError(
                f"{where}: it must be a list of {self.num_classes} whole numbers from -{largest} to {largest}"
            )
        return tuple(value)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse answers that are not histograms within the declared range."""
        shape = (len(reports), self.num_classes)
        if reports.shape != shape or reports.dtype != np.int32:
            raise DomainError(
                f"histograms of neighbours have shape {reports.shape} and type {reports.dtype}: expected int32 {shape}"
            )
        if (np.abs(reports) > self.largest).any():
            raise DomainError(f"a histogram of neighbours has a count outside -{self.largest}..{self.largest}")


class BitReports:
    """Reports that are a bit for each person, as text; many are an array of bytes, [reports, ceil(n / 8)]."""

    num_people: int

    @property
    def _bytes(self) -> int:
        return -(-self.num_people // 8)

    @property
    def _letters(self) -> int:
        return -(-4 * self._bytes // 3)

    def blank(self, count: int) -> NDArray[np.uint8]:
        """Return an array for `count` answers that name nobody."""
        return np.zeros((count, self._bytes), dtype=np.uint8)

    def encode(self, reports: Sequence[str] | NDArray[Any]) -> NDArray[np.uint8]:
        """Return the answers that have these texts, [answers, bytes]; refuse any other text."""
        if not all(len(text) == self._letters and _BASE64.fullmatch(text) for text in reports):
            raise DomainError(f"a neighbour list is not text of {self._letters} characters, base64url without padding")
        content = b"".join(base64.urlsafe_b64decode(text + "=" * (-self._letters % 4)) for text in reports)
        rows = np.frombuffer(content, dtype=np.uint8).reshape(len(reports), self._bytes)
        self.check_reports(rows)
        if self.decode(rows) != list(reports):
            raise DomainError("a neighbour list is text that no answer has: its last character has spare bits")
        return rows

    def decode(self, rows: NDArray[np.uint8]) -> list[str]:
        """Return the text of each answer."""
        return [base64.urlsafe_b64encode(row.tobytes()).decode().rstrip("=") for row in rows]

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of an answer: its text."""
        return {
            "type": "string",
            "description": "a bit for each person, as the bytes of the campaign format in base64url without padding",
            "pattern": "^[A-Za-z0-9_-]*$",
            "minLength": self._letters,
            "maxLength": self._letters,
        }

    @property
    def longest_report(self) -> str:
        """JSON values that no answer is longer than; all have one length."""
        return "A" * self._letters

    def check_report(self, value: object, where: str) -> str:
        """Return JSON values as an answer; refuse everything that is not the text of one."""
        try:
            self.encode([text := value if isinstance(value, str) else ""])
        except DomainError as error:
            raise ReportError(f"{where}: {error}") from None
        return text

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse answers that are not a bit for each person."""
        if reports.ndim != 2 or reports.shape[1] != self._bytes or reports.dtype != np.uint8:
            raise DomainError(
                f"neighbour lists have shape {reports.shape} and type {reports.dtype}: expected a bit for each of "
                f"{self.num_people} people"
            )
        spare = 8 * self._bytes - self.num_people
        if spare and (reports[:, -1] >> (8 - spare)).any():
            raise DomainError(f"a neighbour list names somebody who is not among the {self.num_people} people")


def _mask_words(domain_size: int) -> int:
    return -(-domain_size // _MASK_BITS)


def code_schema(domain_size: int) -> dict[str, Any]:
    """Return the JSON schema of a code of a domain."""
    return {"type": "integer", "minimum": 0, "maximum": domain_size - 1}


def set_schema(domain_size: int, size: int) -> dict[str, Any]:
    """Return the JSON schema of a set of codes."""
    return {
        "type": "array",
        "description": "different codes in ascending order",
        "items": code_schema(domain_size),
        "uniqueItems": True,
        "minItems": size,
        "maxItems": size,
    }


def check_code(value: object, domain_size: int, where: str) -> int:
    """Return a code of a domain; refuse everything else."""
    if not _is_code(value, domain_size):
        raise ReportError(f"{where}: the code must be a whole number from 0 to {domain_size - 1}")
    return value  # type: ignore[return-value]


def check_set(value: object, domain_size: int, size: int, where: str) -> tuple[int, ...]:
    """Return a set of codes in ascending order; refuse everything else."""
    if not isinstance(value, list) or len(value) != size or not are_ascending(value, domain_size):
        raise ReportError(
            f"{where}: it must be a list of {size} different codes from 0 to {domain_size - 1}, in ascending order"
        )
    return tuple(value)


def check_features(
    values: object, domain_sizes: Sequence[int], answered: int, names: Sequence[str]
) -> tuple[int | None, ...]:
    """Return the codes of the features of a report, None for one that it does not answer; refuse everything else.

    Args:
        values: JSON values.
        domain_sizes: number of values of each feature.
        answered: number of features that a report answers.
        names: names of the features.
    """
    if not isinstance(values, list) or len(values) != len(domain_sizes):
        raise ReportError(f"features must be a list of {len(domain_sizes)} codes")
    if answered == len(domain_sizes) and _are_codes(values, domain_sizes):
        return tuple(values)
    asked = [i for i, value in enumerate(values) if value is not None or answered == len(domain_sizes)]
    if len(asked) != answered:
        raise ReportError(f"features must hold codes of {answered} features, and null for all others")
    for i in asked:
        check_code(values[i], domain_sizes[i], f"feature {names[i][:40]!a}")
    return tuple(values)


def are_ascending(values: Sequence[Any], domain_size: int) -> bool:
    """Return whether the values are different codes of a domain, in ascending order."""
    return all(_is_code(code, domain_size) for code in values) and all(low < high for low, high in pairwise(values))


def _are_codes(values: list[Any], domain_sizes: Sequence[int]) -> bool:
    """Return whether every value is a code of its own domain; in C, because every report is checked."""
    return set(map(type, values)) == {int} and min(values) >= 0 and all(map(lt, values, domain_sizes))


def _is_code(value: object, domain_size: int) -> bool:
    """Return whether a value is an integer proper, as True, 1.0 and "1" are not, in its domain."""
    return type(value) is int and 0 <= value < domain_size
