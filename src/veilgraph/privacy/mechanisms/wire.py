"""The wire form of a mechanism: its part of a campaign document, its reports as JSON values, and words for people.

A mechanism that a campaign can ask with says here how it is written. Documents, collectors, tables and pages ask the
mechanism, so none of them knows which mechanisms exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from numpy.typing import NDArray

from veilgraph.errors import CampaignError
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.strict_json import expect_choice, expect_number, expect_object

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
        ...

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report."""
        ...

    @property
    def longest_report(self) -> Any:
        """JSON values that no report is longer than."""
        ...

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer to a question."""
        ...


class PackedForm(WireForm, Protocol):
    """A wire form whose reports are rows of one array."""

    def check_report(self, value: object, where: str) -> Any:
        """Return JSON values as a report; refuse everything that is not exactly a report of this mechanism."""
        ...

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array for `count` reports, to be filled in."""
        ...

    def encode(self, reports: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
        """Return reports as rows of an array, as `randomize` draws them."""
        ...

    def decode(self, rows: NDArray[Any]) -> list[Any]:
        """Return rows of an array as reports: the inverse of `encode`."""
        ...


class FeatureForm(WireForm, Protocol):
    """The wire form of a mechanism for several features."""

    def check_report(self, value: object, names: Sequence[str]) -> tuple[int | None, ...]:
        """Return JSON values as the codes of a report, None for a feature without one; refuse everything else."""
        ...

    @property
    def num_features(self) -> int:
        """Number of features, d."""
        ...

    @property
    def sampled(self) -> int:
        """Number of features that a device picks, m."""
        ...

    @property
    def num_answered(self) -> int:
        """Number of features that a report answers."""
        ...

    @property
    def code_type(self) -> type[Any]:
        """Type of the codes in an array of reports."""
        ...

    def picked_channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of a feature that the device picked."""
        ...


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
