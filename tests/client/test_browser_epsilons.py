"""What the browser adds, rounds and shows is never below the exact figure, and as Python writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.browser_module import BROWSER, in_node, needs_node
from tests.support.campaigns import BEFORE, CAMPAIGNS, MIXED, campaign, classes, with_grr
from veilgraph.campaign.acceptance import PAGE_LIMIT
from veilgraph.client import Answered, Ledger, verify
from veilgraph.privacy.epsilon import show_certainty, show_epsilon
from veilgraph.privacy.mechanisms import LongitudinalGRR
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.schema import FeatureSchema

RNG = np.random.default_rng(27)
EPSILONS = [
    *(10.0 ** RNG.uniform(-6, 2, 600)).tolist(),
    *RNG.uniform(0, 12, 600).round(4).tolist(),
    *RNG.uniform(0, 8, 300).round(1).tolist(),
    *[0.0, 1e-12, 0.1, 0.2, 0.3, 0.7, 4.0, 4.6, 36.7, 99.0],
]


def results(work: str, items: list[Any]) -> list[Any]:
    return [reply["result"] for reply in in_node(work, items)]


@needs_node
def test_the_browser_and_python_write_the_same_certainty() -> None:
    chances = [n / 100 for n in range(51, 100)] + [0.991, 0.995, 0.999]
    limits = [math.log(chance / (1 - chance)) for chance in chances]
    near = [math.nextafter(each, toward) for each in limits for toward in (0, math.inf)]
    epsilons = [*EPSILONS, *limits, *near]
    assert [f"{each:g}" for each in results("raised", epsilons)] == [show_certainty(each) for each in epsilons]


def test_a_certainty_is_the_least_figure_that_is_not_below_the_exact_one() -> None:
    with localcontext(prec=80):
        for epsilon in EPSILONS:
            exact, shown = 100 / (1 + (-Decimal(repr(epsilon))).exp()), Decimal(show_certainty(epsilon))
            assert exact <= shown
            assert shown - exact < (1 if exact <= 99 else Decimal("0.1"))


@needs_node
def test_sums_of_the_browser_are_the_least_numbers_that_are_not_below_the_exact_sums() -> None:
    lists = [RNG.choice(EPSILONS, size=int(RNG.integers(1, 12))).tolist() for _ in range(2_000)]
    for work in ("add", "total"):
        for epsilons, total in zip(lists, results(work, lists), strict=True):
            exact = sum((Fraction(repr(each)) for each in epsilons), Fraction(0))
            assert Fraction(repr(total)) >= exact
            assert Fraction(repr(math.nextafter(total, 0))) < exact or total == 0


@needs_node
def test_the_browser_shows_an_epsilon_as_python_does() -> None:
    assert results("shown", EPSILONS) == [show_epsilon(each) for each in EPSILONS]
    for epsilon, points in zip(EPSILONS, results("roundedUp", [[each, 2] for each in EPSILONS]), strict=True):
        assert 0 <= Fraction(repr(points)) - Fraction(repr(epsilon)) < Fraction(1, 100)


@needs_node
def test_the_browser_computes_no_epsilon_below_the_exact_one() -> None:
    """One table of integers: the least number whose text is not below ln(true / other)."""
    made = [(size, epsilon) for size in (2, 3, 7) for epsilon in (0.1, 0.3, 1.0, 1.5, math.log(3), 2.7, 5.0)]
    texts = [with_grr(classes(size), epsilon_y=epsilon).to_json() for size, epsilon in made]
    for (size, epsilon), reply in zip(made, in_node("verify", texts), strict=True):
        table = IntegerTable.of(domain_size=size, epsilon=epsilon)
        with localcontext(prec=60):
            exact = (Decimal(table.true) / table.other).ln()
        computed = reply["result"]["epsilon"]
        assert Decimal(repr(computed)) >= exact > Decimal(repr(math.nextafter(computed, 0)))


@needs_node
def test_the_total_of_the_browser_is_not_below_the_exact_one() -> None:
    replies = in_node("verify", [each.to_json() for each in CAMPAIGNS.values()])
    for made, reply in zip(CAMPAIGNS.values(), replies, strict=True):
        exact = verify(made.to_json(), max_epsilon=1e6, now=BEFORE).epsilon
        assert Decimal(repr(reply["result"]["epsilon"])) >= exact


def parts_of(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Iterate over the ways to divide answered rounds among memories."""
    if total == 0:
        yield ()
    for first in range(min(total, largest or total), 0, -1):
        yield from ((first, *rest) for rest in parts_of(total - first, first))


LOSSES: dict[str, tuple[FeatureSchema, dict[str, Any]]] = {
    "a label": (classes(7), {"epsilon_y": 2.0, "rounds": 12, "values": 1, "round_epsilon": 1.0}),
    "a label that may change": (classes(4), {"epsilon_y": 0.5, "rounds": 9, "values": 3, "round_epsilon": 2.0}),
    "features and a label": (
        MIXED,
        {"epsilon_x": 1.0, "sampled": 2, "epsilon_y": 2.0, "rounds": 8, "values": 2, "round_epsilon_x": 0.7},
    ),
}


@needs_node
@pytest.mark.parametrize("name", LOSSES)
def test_rounds_that_a_device_lost_count_whatever_memories_they_came_from(name: str) -> None:
    schema, budget = LOSSES[name]
    made = campaign(schema, **budget)

    def cost(rounds: int) -> float:
        asked: list[Any] = [each for each in (made.feature_mechanism, made.label_mechanism) if each is not None]
        return math.fsum(replace(each, rounds=rounds).series_loss.any_histories for each in asked)

    costs = {rounds: cost(rounds) for rounds in range(1, budget["rounds"] + 1)}
    items = [{"campaign": made.to_json(), "lost": lost} for lost in range(budget["rounds"] + 1)]
    for lost, counted in enumerate(results("costWithLost", items)):
        worst = max(sum(costs[rounds] for rounds in parts) for parts in parts_of(lost))
        assert counted == pytest.approx(costs[budget["rounds"]] + worst, rel=1e-8)
        assert counted >= costs[budget["rounds"]] + worst


@needs_node
def test_a_memory_that_is_lost_before_every_round_costs_more_than_two_series() -> None:
    """Then all reports are independent, and each costs what its channel does: together more than any two memories."""
    made = campaign(classes(7), epsilon_y=2.0, rounds=12, values=1, round_epsilon=1.0)
    assert isinstance(made.label_mechanism, LongitudinalGRR)
    channel = made.label_mechanism.channel
    spent = 12 * math.log(channel.keep / channel.other)
    assert spent > 2 * made.guarantee.total_user_level
    (counted,) = results("costWithLost", [{"campaign": made.to_json(), "lost": 11}])
    assert counted >= spent


def test_a_ledger_adds_up_exactly_in_any_decimal_context() -> None:
    epsilons = [Decimal(text) for text in ("0.123456789012345678", "1.000000000000000001", "36.7", "0.1")]
    entries = tuple(Answered("c", "n", each) for each in epsilons)
    with localcontext(prec=6):
        assert Fraction(Ledger(entries, None).spent) == sum(map(Fraction, epsilons))


def test_the_limit_of_the_page_is_what_commands_say() -> None:
    (limit,) = re.findall(r"const DEFAULT_LIMIT = ([\d.]+);", (BROWSER / "participant.js").read_text())
    assert float(limit) == PAGE_LIMIT


def test_the_page_shows_its_own_calculation_alone() -> None:
    """A verified campaign does not hold what the document states, so that no page can show it."""
    for name in ("participant.js", "contacts.js", "device.js", "delivery.js", "figures.js"):
        assert not re.findall(r"\.guarantee\b|user_level|attribute_level", (BROWSER / name).read_text())
