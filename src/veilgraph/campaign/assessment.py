"""How far a collection is: the accuracy that a model on its reports has, as the dashboard shows it.

The collector trains nothing. `veilgraph status` computes an assessment from time to time and writes it to a
file; the dashboard reads the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from veilgraph.errors import CampaignError
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.strict_json import TIME_FORMAT, expect_object, expect_text, expect_time, expect_whole, parse_json

Verdict = Literal["enough", "more helps", "unclear"]

ENOUGH = 0.02
"""It is enough if the second half of the reports brought less accuracy than this, by the interval: two points."""

_FORMAT = 5

_TOLD = 5
"""Classes whose shares are told at most, the largest ones."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Assessment of the reports that a campaign has at some time.

    Attributes:
        campaign: id of the campaign.
        computed: time of the assessment.
        method: name of the method that was trained.
        label_reports: number of label reports it was trained on.
        accuracy: share of people whose label it predicts, estimated from reports that a prediction did not use.
        control: the same for the structure-only control.
        floor: the same for the most frequent class, given for everybody.
        second_half: by how much the accuracy is higher than with a random half of the reports.
        features: by how much it is higher than that of the same method without features; None where it reads none.
        next_hundred: by how much another hundred reports would raise it.
        shares: share of all people who have each class; empty if there are too few reports.
        contamination: what `veilgraph train` says of label reports that were not randomized; None if it found none.

    >>> from datetime import UTC
    >>> found = Assessment(campaign="5f", computed=datetime(2027, 1, 31, tzinfo=UTC), method="veil", label_reports=900,
    ...     accuracy=Estimate(value=0.7, low=0.66, high=0.74, reports=900), control=None,
    ...     second_half=Estimate(value=0.004, low=-0.006, high=0.014, reports=900))
    >>> found.verdict, Assessment.from_json(found.to_json()) == found
    ('enough', True)
    """

    campaign: str
    computed: datetime
    method: str
    label_reports: int
    accuracy: Estimate | None
    control: Estimate | None
    second_half: Estimate | None
    floor: Estimate | None = None
    features: Estimate | None = None
    next_hundred: Estimate | None = None
    shares: Mapping[str, Estimate] = field(default_factory=dict)
    contamination: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether more reports would help, by the gain of the second half: gains shrink as reports grow."""
        gain = self.second_half
        if gain is None:
            return "unclear"
        return "enough" if gain.high <= ENOUGH else "more helps" if gain.low > 0 else "unclear"

    @property
    def sentences(self) -> list[str]:
        """The assessment in words."""
        found = [] if self.contamination is None else [self.contamination]
        if self.accuracy is None:
            return [*found, "There are too few label reports to estimate the accuracy of a model."]
        said = [*found, f"A model on these reports predicts {self.accuracy.text} of the people right whose own report "]
        said[-1] += "it does not use, as for those who did not answer."
        if self.control is not None:
            said.append(f"The control, which only looks at the graph and the labels, predicts {self.control.text}.")
        if self.floor is not None:
            said.append(f"The largest class, given for everybody, is right for {self.floor.text}.")
        said += self.worth
        if self.shares:
            largest = sorted(self.shares.items(), key=lambda each: -each[1].low)[:_TOLD]
            answers = ", ".join(f"'{name}' {share.text}" for name, share in largest)
            said.append(f"Shares of all people, if those who did not answer are like the others: {answers}.")
        if self.second_half is None and self.control is None:
            return [*said, "Whether more answers would help is not estimated for a series about neighbours."]
        if self.second_half is None:
            return [*said, "Whether more reports would help cannot be told from so few."]
        half = f"The second half of the reports brought {self.second_half.points}"
        return [*said, f"{half}: {_VERDICTS[self.verdict]}"]

    @property
    def worth(self) -> list[str]:
        """What features brought and what more reports would bring, in words."""
        features = [] if self.features is None else [features_in_words(self.features)]
        return features + ([] if self.next_hundred is None else [hundred_in_words(self.next_hundred)])

    @property
    def document(self) -> dict[str, Any]:
        """The assessment as JSON values, with its verdict and its words."""
        content: dict[str, Any] = json.loads(self.to_json())
        return content | {"verdict": self.verdict, "sentences": self.sentences}

    def to_json(self) -> str:
        """Return the text of a file that `from_json` reads."""
        content: dict[str, Any] = asdict(self) | {"format": _FORMAT, "computed": self.computed.strftime(TIME_FORMAT)}
        return json.dumps(content, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Assessment:
        """Read an assessment; refuse a document of another form."""
        estimates = ("accuracy", "control", "second_half", "floor", "features", "next_hundred")
        keys = {"format", "campaign", "computed", "method", "label_reports", "shares", "contamination", *estimates}
        try:
            parts = expect_object(parse_json(text), keys, "assessment")
        except ValueError:
            raise CampaignError("it is not an assessment: 'veilgraph status' writes one") from None
        if parts["format"] != _FORMAT:
            raise CampaignError(f"its format is not {_FORMAT}: write it again with 'veilgraph status'")
        return cls(
            campaign=expect_text(parts["campaign"], "campaign"),
            computed=expect_time(parts["computed"], "computed"),
            method=expect_text(parts["method"], "method"),
            label_reports=expect_whole(parts["label_reports"], "label_reports", 0, 2**53 - 1),
            **{key: _estimate(parts[key], key) for key in estimates},
            shares=_shares(parts["shares"]),
            contamination=_sentence(parts["contamination"]),
        )

    @classmethod
    def read(cls, path: Path, campaign_id: str) -> Assessment | None:
        """Return the assessment of a campaign in a file; None if there is no file yet, or it is another campaign's."""
        try:
            found = cls.from_json(path.read_bytes())
        except (FileNotFoundError, CampaignError):
            return None
        return found if found.campaign == campaign_id else None


_VERDICTS: dict[Verdict, str] = {
    "enough": "more reports like these would hardly help.",
    "more helps": "more reports still help.",
    "unclear": "there are too few to tell whether more would help.",
}


def _shares(document: object) -> dict[str, Estimate]:
    """Read the shares of the classes."""
    if not isinstance(document, dict):
        raise CampaignError("shares are not a table of classes with their estimates")
    found = {name: _estimate(each, f"the share of '{name}'") for name, each in document.items()}
    return {name: share for name, share in found.items() if share is not None}


def _sentence(document: object) -> str | None:
    """Read a sentence; None stands for one that is not said."""
    return None if document is None else expect_text(document, "contamination")


def _estimate(document: object, name: str) -> Estimate | None:
    """Read an estimate; None stands for one that could not be made."""
    found = Estimate.parse(document) if isinstance(document, dict) else None
    if found is None and document is not None:
        raise CampaignError(f"{name} is not an estimate of a share with its interval")
    return found


def parts_in_words(accuracy: Mapping[str, Any]) -> list[str]:
    """Say what each part of the inputs added, where a card estimates it.

    Args:
        accuracy: the estimates of a card, by name; None where there is none.
    """
    names = {"features": "Features", "public": "Public columns", "links": "Weights, directions and kinds of links"}
    given = {part: accuracy.get(part) for part in names}
    return [features_in_words(Estimate(**found), names[part]) for part, found in given.items() if found is not None]


def features_in_words(helped: Estimate, what: str = "Features") -> str:
    """Say whether features, or what else is named, helped: by the difference to the same method without them.

    >>> features_in_words(Estimate(value=0.031, low=0.01, high=0.052, reports=900))
    'Features helped: with them, predictions are right more often by +3.1 points (95 % interval +1.0 to +5.2).'
    """
    if helped.low > 0:
        return f"{what} helped: with them, predictions are right more often by {helped.points}."
    if helped.high < 0:
        return f"{what} did harm: with them, predictions changed by {helped.points}."
    return (
        f"Whether {what[0].lower()}{what[1:]} helped does not show: with them, predictions changed by {helped.points}."
    )


def hundred_in_words(gain: Estimate) -> str:
    """Say what another hundred reports would bring, and how that is known.

    >>> hundred_in_words(Estimate(value=None, low=-0.001, high=0.009, reports=900))[:83]
    'Another hundred reports would bring between −0.1 and +0.9 points (95 % interval) on'
    """
    return (
        f"Another hundred reports would bring {gain.points} on average: at most what random halves of them lack, "
        "carried on as one over the square root of their number, and perhaps nothing."
    )
