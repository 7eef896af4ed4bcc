r"""Plausible class shares: an alarm for coordinated lies, which no screening of single reports finds.

A report names one class, or a set of w classes. Everyone may name every class, so a liar who names one without
randomizing cannot be told from others. Many liars who name the same class are visible together: its estimated share
moves. With a fraction f of liars, and a share :math:`\pi` of the class among the honest, the estimate has the mean

.. math:: (1 - f)\,\pi + f\,\frac{1 - other}{gain}
   \qquad\text{or}\qquad
   (1 - f)\,\pi - f\,\frac{other}{gain}

if all liars name the class, or if none of them does. No other way to lie moves it further. A liar who names the class
instead of leaving it out moves it by 1 / gain people. A set moves w classes up at once, and all others down: the
estimates of all classes sum to 1, whatever the reports are.

An owner knows which shares are plausible, and declares a range for some classes. The alarm compares each range with
an interval of the estimate, and is raised only where the whole interval is outside. It is the interval of Clopper
and Pearson for the number of reports that name the class, mapped to shares. It is exact for people drawn from a
population. For fixed people the number is a sum of independent indicators, and its tails are lighter than the
binomial's (Hoeffding 1956). So honest reports of plausible shares raise any alarm with a probability of at most
`level`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from veilgraph.campaign.document import Campaign
from veilgraph.errors import CampaignError, RunError
from veilgraph.privacy.frequency import count_named
from veilgraph.privacy.mechanisms import LabelMechanism, SymmetricChannel

LEVEL = 0.01
Verdict = Literal["plausible", "above", "below"]


def shift_per_liar(channel: SymmetricChannel) -> float:
    """Return the largest shift of an estimated share, divided by the share of liars: (1 - other) / gain.

    It is the estimate of a class that every report names.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> round(shift_per_liar(GRR(7, 1.0).channel), 2)  # 1 % of liars move an estimate by up to 4.49 points
    4.49
    >>> from veilgraph.privacy.mechanisms import SubsetSelection
    >>> round(shift_per_liar(SubsetSelection(7, 1.0).channel), 2)  # sets of two classes
    2.75
    """
    return float((1 - channel.other) / channel.gain)


def liars_that_explain(estimate: float, share: float, channel: SymmetricChannel) -> float:
    """Return the least share of liars with which a class of a given share has a given estimate on average.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> channel = GRR(7, 1.0).channel
    >>> round(liars_that_explain(0.9 * 0.07 + 0.1 * shift_per_liar(channel), 0.07, channel), 9)
    0.1
    """
    furthest = shift_per_liar(channel) if estimate > share else float(-channel.other / channel.gain)
    return (estimate - share) / (furthest - share)


@dataclass(frozen=True, kw_only=True)
class CheckedShare:
    """Comparison of one class with its declared range. Shares are of 1, and estimates can lie outside 0..1.

    Attributes:
        name: name of the class.
        declared: lowest and highest plausible share.
        estimate: unbiased estimate of the share.
        interval: interval of the estimate.
        confidence: confidence of the interval.
        verdict: on which side of the declared range the whole interval is, or "plausible".
        liars: share of liars that would explain the estimate; 0 if it is plausible.
        least_liars: share of liars that would explain the nearest end of the interval; 0 if it is plausible.
        reports: number of label reports.
    """

    name: str
    declared: tuple[float, float]
    estimate: float
    interval: tuple[float, float]
    confidence: float
    verdict: Verdict
    liars: float
    least_liars: float
    reports: int

    @property
    def sentence(self) -> str:
        """Explanation for a person."""
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        text = (
            f"'{self.name}' is estimated at {100 * self.estimate:.1f} % ({100 * self.confidence:.4g} % interval "
            f"{low} to {high}), and {100 * self.declared[0]:g} to {100 * self.declared[1]:g} % were declared plausible"
        )
        if self.verdict == "plausible":
            return f"{text}."
        lie = "always" if self.verdict == "above" else "never"
        return (
            f"{text}. About {100 * self.liars:.1f} % coordinated liars who {lie} report it would explain this: "
            f"{self.liars * self.reports:,.0f} of {self.reports:,} people "
            f"(at least {math.ceil(self.least_liars * self.reports):,}, by the interval)."
        )


@dataclass(frozen=True, kw_only=True)
class PlausibleShares:
    """Ranges of class shares that an owner declares plausible. They are not part of the campaign.

    Args:
        classes: all classes of the campaign.
        ranges: lowest and highest plausible share of some classes.

    >>> PlausibleShares(classes=("well", "ill"), ranges={"ill": (0.2, 0.1)})
    Traceback (most recent call last):
        ...
    veilgraph.errors.RunError: 'ill' is declared as 0.2 to 0.1: write the lower share first, both from 0 to 1
    """

    classes: Sequence[str]
    ranges: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        """Refuse unknown classes and ranges that no distribution satisfies."""
        if not self.ranges:
            raise RunError('no class is declared: write a line such as "class name" = [0.05, 0.10]')
        for name, (low, high) in self.ranges.items():
            if name not in self.classes:
                raise RunError(f"'{name}' is not a class of the campaign: known are {', '.join(self.classes)}")
            if not 0 <= low <= high <= 1:
                raise RunError(
                    f"'{name}' is declared as {low} to {high}: write the lower share first, both from 0 to 1"
                )
        least, most = (math.fsum(ends) for ends in zip(*self.ranges.values(), strict=True))
        if least > 1 + 1e-9:
            raise RunError(f"the lowest shares sum to {least:g}: all classes together have 1")
        if len(self.ranges) == len(self.classes) and most < 1 - 1e-9:
            raise RunError(f"the highest shares of all classes sum to {most:g}: together they have 1")

    @classmethod
    def load(cls, path: Path, campaign: Campaign) -> PlausibleShares:
        """Read ranges from TOML, with lines such as `"class name" = [0.05, 0.10]`."""
        if campaign.label_mechanism is None:
            raise CampaignError("the campaign collects no labels: there are no class shares to declare")
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RunError(f"{path} cannot be read as plausible shares: {error}") from error
        try:
            ranges = {name: _parse_range(name, value) for name, value in document.items()}
            return cls(classes=campaign.schema.classes, ranges=ranges)
        except RunError as error:
            raise RunError(f"{path}: {error}") from None

    def check(
        self, labels: NDArray[Any], mechanism: LabelMechanism, *, level: float = LEVEL
    ) -> tuple[CheckedShare, ...]:
        """Compare the label reports with the declared ranges, in the order of the classes.

        Args:
            labels: all label reports, `[reports, ...]`, as the mechanism reports them.
            mechanism: the label mechanism. A report counts for every class that it names.
            level: largest probability that honest reports of plausible shares raise any alarm.
        """
        if not len(labels):
            return ()
        counts = count_named(labels, mechanism).tolist()
        # Bonferroni: the errors of all intervals sum to the level.
        confidence = 1 - level / len(self.ranges)
        return tuple(
            _check(name, self.ranges[name], count, len(labels), mechanism.channel, confidence)
            for name, count in zip(self.classes, counts, strict=True)
            if name in self.ranges
        )


def _parse_range(name: str, value: object) -> tuple[float, float]:
    ends = value if isinstance(value, list) else []
    if len(ends) != 2 or not all(type(end) in (int, float) for end in ends):
        raise RunError(f"'{name}' needs a range such as [0.05, 0.10]; quote names with dots or spaces")
    return float(ends[0]), float(ends[1])


def _check(
    name: str, declared: tuple[float, float], count: int, reports: int, channel: SymmetricChannel, confidence: float
) -> CheckedShare:
    estimate, low, high = (
        float((observed - float(channel.other)) / float(channel.gain))
        for observed in (count / reports, *_clopper_pearson(count, reports, confidence))
    )
    verdict: Verdict = "above" if low > declared[1] else "below" if high < declared[0] else "plausible"
    liars = least = 0.0
    if verdict != "plausible":
        nearest, end = (declared[1], low) if verdict == "above" else (declared[0], high)
        liars, least = (liars_that_explain(share, nearest, channel) for share in (estimate, end))
    return CheckedShare(
        name=name,
        declared=declared,
        estimate=estimate,
        interval=(low, high),
        confidence=confidence,
        verdict=verdict,
        liars=liars,
        least_liars=least,
        reports=reports,
    )


def _clopper_pearson(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a binomial probability."""
    from scipy.special import betainccinv, betaincinv  # slow to import, and a collector starts without it

    tail = (1 - confidence) / 2
    low = betaincinv(count, total - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, total - count, tail) if count < total else 1.0
    return float(low), float(high)
