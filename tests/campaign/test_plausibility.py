"""Plausible shares raise an alarm at most at the stated rate; coordinated liars raise it, and are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from tests.support.collection import CLOSES, Collection
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.plausibility import LEVEL, CheckedShare, PlausibleShares, liars_that_explain, shift_per_liar
from veilgraph.errors import CampaignError, RunError
from veilgraph.privacy.mechanisms import GRR, LabelMechanism, SubsetSelection, SymmetricChannel

CLASSES = tuple(f"class {i}" for i in range(7))
MECHANISM = GRR(7, 1.0)
CHANNEL = MECHANISM.channel
SETS = SubsetSelection(7, 1.0)
PEOPLE = 2708
RARE = 0.07


def with_liars(liars: float, seed: int) -> np.ndarray:
    """Return label reports of people of whom 7 % have class 0, and of liars among them who all report class 0."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(PEOPLE) < RARE, 0, rng.integers(1, 7, size=PEOPLE))
    reports = MECHANISM.randomize(labels, rng=rng)
    return np.where(rng.random(PEOPLE) < liars, 0, reports)


def check(labels: np.ndarray, low: float, high: float, mechanism: LabelMechanism = MECHANISM) -> CheckedShare:
    (checked,) = PlausibleShares(classes=CLASSES, ranges={CLASSES[0]: (low, high)}).check(labels, mechanism)
    return checked


def estimate_with_liars(share: float, liars: float, channel: SymmetricChannel) -> float:
    """Return the mean estimate of a class if some people name it without randomizing."""
    return (1 - liars) * share + liars * shift_per_liar(channel)


def naming(count: int, people: int, mechanism: LabelMechanism) -> np.ndarray:
    """Return reports of which `count` name class 0, as a class or in a set of two."""
    if isinstance(mechanism, SubsetSelection):
        return np.repeat(mechanism.encode([(0, 1), (1, 2)]), [count, people - count], axis=0)
    return np.repeat([0, 1], [count, people - count])


@pytest.mark.parametrize(("liars", "shown"), [(0.0, 7), (0.05, 29), (0.1, 51), (0.2, 95)])
def test_the_estimate_with_liars_has_the_mean_of_the_formula(liars: float, shown: int) -> None:
    """7 % show as 29, 51 and 95 % with 5, 10 and 20 % liars, at epsilon_y = 1 and with seven classes."""
    mean = estimate_with_liars(RARE, liars, CHANNEL)
    assert round(100 * mean) == shown
    found = [check(with_liars(liars, seed), 0, 1).estimate for seed in range(60)]
    observed = float(CHANNEL.other) + mean * float(CHANNEL.gain)
    error = np.sqrt(observed * (1 - observed) / PEOPLE) / float(CHANNEL.gain)
    assert abs(np.mean(found) - mean) < 4 * error / np.sqrt(60)


def test_the_figures_of_an_attack_agree_with_the_formula() -> None:
    """27, 49 and 93 % were measured: less than a standard error of 2,708 people from the mean, each time."""
    for liars, seen in ((0.05, 0.27), (0.1, 0.49), (0.2, 0.93)):
        mean = estimate_with_liars(180 / 2708, liars, CHANNEL)
        observed = float(CHANNEL.other) + mean * float(CHANNEL.gain)
        assert abs(seen - mean) < np.sqrt(observed * (1 - observed) / PEOPLE) / float(CHANNEL.gain)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("classes", [2, 7, 50])
def test_nobody_moves_an_estimate_further_than_stated(epsilon: float, classes: int) -> None:
    """Liars choose the share of their reports that name the class; both ends are the extremes."""
    channel = GRR(classes, epsilon).channel
    other, gain = float(channel.other), float(channel.gain)
    for share in (0.0, 0.3, 1.0):
        for liars in (0.01, 0.5, 1.0):
            honest = other + share * gain
            shifts = [((1 - liars) * honest + liars * named - other) / gain - share for named in (0.0, 0.4, 1.0)]
            assert max(map(abs, shifts)) <= liars * shift_per_liar(channel) * (1 + 1e-12)
            assert shifts[2] == pytest.approx(estimate_with_liars(share, liars, channel) - share)
            for shift in (shifts[0], shifts[2]):
                assert liars_that_explain(share + shift, share, channel) == pytest.approx(liars)


@pytest.mark.parametrize(
    "mechanism", [GRR(4, 1.0), SubsetSelection(4, 0.5), SubsetSelection(5, 1.0), SubsetSelection(5, 2.0, size=4)]
)
def test_a_report_moves_the_classes_that_it_names_by_one_gain_and_all_classes_together_by_one(
    mechanism: GRR | SubsetSelection,
) -> None:
    """By enumeration in rational arithmetic: the estimate of one report is what it adds to n times the estimates."""
    channel = mechanism.channel
    for report in mechanism.reports():
        moved = [((c in report) - channel.other) / channel.gain for c in range(mechanism.domain_size)]
        assert sum(moved) == 1
        assert float(max(moved)) == shift_per_liar(channel)
        assert max(moved) - min(moved) == 1 / channel.gain
        assert moved.count(max(moved)) == mechanism.set_size


@pytest.mark.parametrize("liars", [0.0, 0.05, 0.2])
def test_liars_who_name_a_class_among_others_move_its_estimate_as_the_formula_says(liars: float) -> None:
    """Sets of 2 of 7 classes: class 0 and another one at random; four standard errors of 60 draws."""
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        labels = np.where(rng.random(PEOPLE) < RARE, 0, rng.integers(1, 7, size=PEOPLE))
        named = SETS.named(SETS.randomize(labels, rng=rng))
        hostile = np.flatnonzero(rng.random(PEOPLE) < liars)
        named[hostile] = False
        named[hostile, 0] = named[hostile, rng.integers(1, 7, size=len(hostile))] = True
        plausible = PlausibleShares(classes=CLASSES, ranges={CLASSES[0]: (0, 1)})
        found.append(plausible.check(SETS.encode([np.flatnonzero(row) for row in named]), SETS)[0].estimate)
    mean = estimate_with_liars(RARE, liars, SETS.channel)
    observed = float(SETS.channel.other) + mean * float(SETS.channel.gain)
    error = np.sqrt(observed * (1 - observed) / PEOPLE) / float(SETS.channel.gain)
    assert abs(np.mean(found) - mean) < 4 * error / np.sqrt(60)


@pytest.mark.parametrize("people", [1, 20, 300, 1000])
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.07), (0.1, 0.2), (0.5, 0.5), (0.0, 0.0), (1.0, 1.0)])
def test_a_plausible_share_raises_the_alarm_at_most_at_the_stated_rate(people: int, low: float, high: float) -> None:
    """By enumeration: the probabilities of all numbers of reports that raise it, for every share of the range."""
    counts = np.arange(people + 1)
    collections = (np.repeat([0, 1], [count, people - count]) for count in counts)
    alarms = [check(labels, low, high).verdict != "plausible" for labels in collections]
    for share in np.linspace(low, high, 5):
        observed = float(CHANNEL.other) + share * float(CHANNEL.gain)
        assert binom.pmf(counts, people, observed)[alarms].sum() <= LEVEL


@pytest.mark.parametrize("mechanism", [MECHANISM, SETS], ids=["one class", "sets of classes"])
def test_fixed_people_with_shares_at_the_ends_of_all_ranges_raise_any_alarm_at_most_at_the_stated_rate(
    mechanism: LabelMechanism,
) -> None:
    """1,000 collections of the same 700 people: at most Binomial(1000, 0.01) alarms, 25 with probability 1e-5."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(7), [49, 51, 100, 100, 100, 100, 200])
    shares = np.bincount(labels) / len(labels)
    ranges = {name: (share, share) for name, share in zip(CLASSES, shares, strict=True)}
    plausible = PlausibleShares(classes=CLASSES, ranges=ranges)
    alarms = 0
    for _ in range(1000):
        checked = plausible.check(mechanism.randomize(labels, rng=rng), mechanism)
        alarms += any(share.verdict != "plausible" for share in checked)
    assert alarms < binom.isf(1e-5, 1000, LEVEL)


@pytest.mark.parametrize(
    ("mechanism", "liars", "power"),
    [(MECHANISM, 0.05, 0.97), (MECHANISM, 0.1, 1 - 1e-9), (SETS, 0.05, 0.52), (SETS, 0.1, 0.9999)],
)
def test_coordinated_liars_raise_the_alarm(mechanism: LabelMechanism, liars: float, power: float) -> None:
    """By enumeration: the probability of the alarm for 2,708 people of whom 7 % have the class; 12 % are plausible."""
    channel, counts = mechanism.channel, np.arange(0, PEOPLE + 1)
    observed = float(channel.other) + estimate_with_liars(RARE, liars, channel) * float(channel.gain)
    likely = counts[binom.pmf(counts, PEOPLE, observed) > 1e-15]
    collections = (naming(int(count), PEOPLE, mechanism) for count in likely)
    alarms = [check(labels, 0.05, 0.12, mechanism).verdict == "above" for labels in collections]
    assert binom.pmf(likely, PEOPLE, observed)[alarms].sum() > power


def test_liars_are_counted() -> None:
    for seed in range(20):
        assert check(with_liars(0.0, seed), 0.05, 0.12).verdict == "plausible"
        found = check(with_liars(0.1, seed), 0.05, 0.12)
        assert 0 < found.least_liars < found.liars
        # At least that many people lied, even if as many as plausible have the class.
        assert found.least_liars < 0.1
        assert "coordinated liars who always report it" in found.sentence
    # From the true share, the count is right on average: four standard errors of 20 draws.
    counted = [check(with_liars(0.1, seed), RARE, RARE).liars for seed in range(20)]
    observed = float(CHANNEL.other) + estimate_with_liars(RARE, 0.1, CHANNEL) * float(CHANNEL.gain)
    error = np.sqrt(observed * (1 - observed) / PEOPLE) / float(CHANNEL.gain) / (shift_per_liar(CHANNEL) - RARE)
    assert abs(np.mean(counted) - 0.1) < 4 * error / np.sqrt(20)


def test_liars_who_avoid_a_class_raise_the_alarm_too() -> None:
    rng = np.random.default_rng(0)
    reports = MECHANISM.randomize(np.repeat([0, 1], [PEOPLE // 2, PEOPLE - PEOPLE // 2]), rng=rng)
    reports = np.where(rng.random(PEOPLE) < 0.3, 1, reports)
    found = check(reports, 0.45, 0.55)
    assert found.verdict == "below"
    assert "coordinated liars who never report it" in found.sentence
    # Honest reports have the mean 0.5; liars who avoid the class lower it by 0.3 (0.5 + other / gain).
    assert found.least_liars < 0.3 < found.liars + 4 * 0.034


def test_few_reports_raise_no_alarm_and_none_are_not_checked() -> None:
    plausible = PlausibleShares(classes=CLASSES, ranges={CLASSES[0]: (0.05, 0.1)})
    assert plausible.check(np.zeros(0, dtype=np.int64), MECHANISM) == ()
    assert [share.verdict for share in plausible.check(np.zeros(1, dtype=np.int64), MECHANISM)] == ["plausible"]


def test_more_declared_classes_widen_every_interval() -> None:
    labels = with_liars(0.0, 0)
    ranges = dict.fromkeys(CLASSES, (0.0, 1.0))
    checked = PlausibleShares(classes=CLASSES, ranges=ranges).check(labels, MECHANISM)
    assert [share.name for share in checked] == list(CLASSES)
    alone = check(labels, 0, 1).interval
    assert checked[0].interval[0] < alone[0] < alone[1] < checked[0].interval[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no class is declared"),
        ("il = [0.1, 0.2]", "'il' is not a class of the campaign: known are well, ill"),
        ("ill = [0.2, 0.1]", "'ill' is declared as 0.2 to 0.1"),
        ("ill = [0.2, 20]", "both from 0 to 1"),
        ("ill = [-0.1, 0.2]", "both from 0 to 1"),
        ("ill = [nan, 0.2]", "both from 0 to 1"),
        ("ill = [0.1]", "needs a range such as"),
        ("ill = 0.1", "needs a range such as"),
        ("ill = [false, true]", "needs a range such as"),
        ("ill.now = [0, 1]", "quote names with dots"),
        ("well = [0.6, 1]\nill = [0.5, 1]", "the lowest shares sum to 1.1"),
        ("well = [0, 0.5]\nill = [0, 0.4]", "sum to 0.9"),
        ("ill = [0.1, ", "cannot be read as plausible shares"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "shares.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"shares\.toml") as caught:
        PlausibleShares.load(path, Collection.ring().campaign)
    assert message in str(caught.value)


def test_ranges_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shares.toml"
    path.write_text('"ill" = [0.05, 0.1]', encoding="utf-8")
    assert PlausibleShares.load(path, Collection.ring().campaign).ranges == {"ill": (0.05, 0.1)}
    with pytest.raises(RunError, match="cannot be read"):
        PlausibleShares.load(tmp_path / "missing.toml", Collection.ring().campaign)


def test_a_campaign_without_labels_has_no_shares(tmp_path: Path) -> None:
    ring = Collection.ring()
    campaign = Campaign.new(
        schema=ring.campaign.schema,
        graph=ring.graph,
        notice=Notice(purpose="p", contact="c", closes=CLOSES),
        budget=CampaignBudget(epsilon_x=1.0, sampled=1),
    )
    with pytest.raises(CampaignError, match="collects no labels"):
        PlausibleShares.load(tmp_path / "shares.toml", campaign)
