"""Which accuracy a plan lets expect, and on what it depends: said by `veilgraph init` and `veilgraph plan` alike."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veilgraph.privacy.plain_text import quote

if TYPE_CHECKING:
    from veilgraph.experiments.budget_planner import Plan, Range, ScenarioGroup
    from veilgraph.experiments.stand_ins import StandIn


@dataclass(frozen=True)
class Expected:
    """What to expect of the predictions about people who do not answer.

    Attributes:
        plan: the plan, whose simulated answers follow the links more or less.
        label_share: share of the people who answer in them.
        stand_ins: how closely public columns follow the links.
    """

    plan: Plan
    label_share: float
    stand_ins: tuple[StandIn, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """What to expect as JSON-ready values."""
        whole, columns = self.plan.all_scenarios, []
        for each in self.stand_ins:
            facts = {"name": each.name, "homophily": each.homophily, "assortativity": each.assortativity}
            columns.append(facts | {"expected": _ranges(self.plan.near(each.assortativity))})
        return {
            "expected_accuracy": _ends(whole.accuracy) | {"probability": 0.9},
            "largest_class": _ends(whole.largest_class),
            "by_assortativity": [_ranges(group) for group in self.plan.thirds],
            "public_columns": columns,
            "with_public": self._with_public,
        }

    @property
    def sentences(self) -> Iterator[str]:
        """What to expect in words: the condition stands before each figure, and the largest class behind it."""
        yield (
            f"What to expect, if {self.label_share:.0%} of the people answer, about those who do not. It depends on "
            "how closely answers follow the links, from 0 % (as chance) to 100 % (each link joins people with "
            "the same answer), which nobody knows before:"
        )
        yield "  if they do not follow them: as right as the largest class, the most frequent answer for everybody"
        for group in self.plan.thirds:
            yield f"  if they follow them by {_shown(group.assortativity)}: {_right(group)}"
        for each in self.stand_ins:
            closely = f"{100 * max(each.assortativity, 0.0):.0f} %"
            yield f"  if as closely as {quote(each.name)}, {closely}: {_right(self.plan.near(each.assortativity))}"
        if (told := self._with_public) is not None:
            more = 100 * told["gain"]
            yield (
                "  if answers of half of the people follow the public columns, and those of the others the links more "
                f"or less: {_shown((told['low'], told['high']))} right, on average {more:+.1f} points by these columns"
            )

    @property
    def _with_public(self) -> dict[str, float] | None:
        """Range of the accuracy with public columns that half of the answers follow, and the mean gain by them."""
        if self.plan.told is None:
            return None
        known, unknown = self.plan.told
        return {"low": min(known), "high": max(known), "gain": statistics.mean(known) - statistics.mean(unknown)}


def _right(group: ScenarioGroup) -> str:
    return f"{_shown(group.accuracy)} right, the largest class {_shown(group.largest_class)}"


def _ranges(group: ScenarioGroup) -> dict[str, dict[str, float]]:
    """Return the ranges of a group as JSON-ready values."""
    names = ("assortativity", "homophily", "accuracy", "largest_class")
    return {name: _ends(getattr(group, name)) for name in names}


def _ends(bounds: Range) -> dict[str, float]:
    return dict(zip(("low", "high"), bounds, strict=True))


def _shown(bounds: Range) -> str:
    """Return a range in percent, or one figure where both ends read the same."""
    low, high = (f"{100 * max(end, 0.0):.0f}" for end in bounds)
    return f"{low} %" if low == high else f"{low} to {high} %"
