"""Do the paper's claims hold? Each one, with the figures behind it and a verdict that follows from them."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import (
    CONTROL,
    Difference,
    Found,
    Pair,
    PairedDifference,
    budget_words,
    dataset_name,
    find,
    paired,
    pooled,
    select,
    short_epsilon,
    signed_points,
)
from veilgraph.pages.result_tables import Table
from veilgraph.privacy.budget import theorem_1_figure
from veilgraph.privacy.mechanisms import GRRFS

DATASETS = ("citeseer", "cora", "dblp", "facebook", "german", "student")
EPSILON_X = (1.0, 0.1)
EPSILON_Y = (3.0, 2.0, 1.0, 0.5)
"""The paper's 48 settings. It ran epsilon_x = 0.01 too, but published no figures for it."""

DRASTIC = 0.05
"""What "drastic" is taken to mean: five points of accuracy."""
CLAIMED_WINS = 39
SAMPLED = 10
"""m, of every setting."""
_CITESEER_FEATURES = 53


class Verdict(StrEnum):
    """What the figures say about a claim."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    REFUTED = "refuted"
    NOT_RUN = "not run yet"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper.

    Attributes:
        name: the claim.
        where: in the paper.
        experiments: that decide it; none where computation does.
        verdict: what the figures say.
        figures: those figures, in a sentence or two.
    """

    name: str
    where: str
    experiments: tuple[str, ...]
    verdict: Verdict
    figures: str


Finding = tuple[Verdict, str]


def judge_claims(found: Found) -> list[Claim]:
    """Every claim of the paper's result sections, in the paper's order, and the privacy level of Theorem 1 first.

    Args:
        found: rows by experiment; of an experiment that is not there, or not whole, the claims are "not run yet".
    """
    rows: dict[str, Sequence[Row]] = {name: () for each in _RESULT_CLAIMS for name in each.experiments}
    rows |= found
    theorem_1 = Claim(
        name="GRR-FS has the privacy level of Theorem 1",
        where="Theorem 1: ε_X = ln(1 + (m/d)(e^(m ε_x) − 1))",
        experiments=(),
        verdict=Verdict.REFUTED,
        figures=_theorem_1_figures(),
    )
    return [theorem_1, *(each.judged(rows) for each in _RESULT_CLAIMS)]


def claims_table(claims: Sequence[Claim]) -> Table:
    """Each claim, the verdict and the figures behind it, as a table."""
    return Table(
        title="Do the paper's claims hold?",
        columns=("Claim", "Verdict", "Figures"),
        words=3,
        rows=tuple((claim.name, claim.verdict, claim.figures) for claim in claims),
        note="",
    )


def _theorem_1_figures() -> str:
    levels = []
    for epsilon_x in (1.0, 0.1, 0.01):
        exact = GRRFS((2,) * _CITESEER_FEATURES, sampled=SAMPLED, epsilon=epsilon_x).claim.user_level
        stated = theorem_1_figure(epsilon_x, SAMPLED, _CITESEER_FEATURES)
        levels.append(f"{short_epsilon(stated)} stated, {short_epsilon(exact)} exact at ε_x = {epsilon_x:g}")
    return (
        f"Citeseer, m = {SAMPLED} of d = {_CITESEER_FEATURES} features, any two records: {'; '.join(levels)}. "
        "Sampling features of one record does not amplify: the exact level is m ε_x. "
        "To see it in reports: veilgraph audit."
    )


@dataclass(frozen=True, kw_only=True)
class _ResultClaim:
    """A claim and how rows decide it."""

    name: str
    where: str
    experiments: tuple[str, ...]
    decide: Callable[[Found], Finding]

    def judged(self, found: Found) -> Claim:
        verdict, figures = self.decide(found)
        return Claim(name=self.name, where=self.where, experiments=self.experiments, verdict=verdict, figures=figures)


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """A difference that a claim says is above zero."""

    what: str
    difference: PairedDifference

    def __str__(self) -> str:
        return f"{self.what}: {on_one_line(self.difference)}"


def on_one_line(difference: Difference) -> str:
    """With its standard error, never broken apart."""
    return str(difference).replace(" ", "\N{NO-BREAK SPACE}")


def _verdict(differences: Sequence[PairedDifference]) -> Verdict:
    """Confirmed if every difference is clear; refuted if one is clear the other way, among all that were looked at."""
    if any(each.mean < 0 and each.clear_among(len(differences)) for each in differences):
        return Verdict.REFUTED
    if differences and all(each.mean > 0 and each.clear for each in differences):
        return Verdict.CONFIRMED
    return Verdict.NOT_CONFIRMED


NamedPairs = tuple[str, Sequence[tuple[Row | None, Row | None]]]
"""What is compared, and the rows; None where they are not finished."""


def _in_words(made: Iterable[_Comparison]) -> str:
    return "; ".join(map(str, made))


def _compare(pairs: Iterable[NamedPairs]) -> tuple[list[_Comparison], int]:
    """One comparison for each named list of pairs, pooled over the list; and how many cannot be made yet."""
    made, missing = [], 0
    for what, wanted in pairs:
        whole = [(a, b) for a, b in wanted if a is not None and b is not None]
        difference = pooled(whole) if len(whole) == len(wanted) else None
        if difference is None:
            missing += 1
        else:
            made.append(_Comparison(what=what, difference=difference))
    return made, missing


def _each_above(lead: str, pairs: Iterable[NamedPairs]) -> Finding:
    """The finding of a claim that each of a few differences is above zero; `lead` says what they are."""
    made, missing = _compare(pairs)
    figures = f"{lead}. {_in_words(made)}." if made else ""
    return _unless_missing(_verdict([each.difference for each in made]), figures, missing, len(made))


def _unless_missing(verdict: Verdict, figures: str, missing: int, made: int) -> Finding:
    """A counterexample stands whatever is missing; everything else waits for the rest."""
    if not missing:
        return verdict, figures
    if not made:
        return Verdict.NOT_RUN, "Its fits are not finished."
    note = f"{made} of {made + missing} comparisons are finished."
    return (verdict if verdict is Verdict.REFUTED else Verdict.NOT_RUN), f"{note} {figures}".strip()


# Table 2.


def _table2_pairs(rows: Sequence[Row], other: str) -> list[Pair]:
    """RGNN and another method in the paper's settings, where both are finished."""
    pairs = []
    for dataset, epsilon_x, epsilon_y in itertools.product(DATASETS, EPSILON_X, EPSILON_Y):
        setting = {"dataset": dataset, "epsilon_x": epsilon_x, "epsilon_y": epsilon_y}
        pair = find(rows, method="rgnn", **setting), find(rows, method=other, **setting)
        if pair[0] is not None and pair[1] is not None and paired(pair[0], pair[1]) is not None:
            pairs.append((pair[0], pair[1]))
    return pairs


def _differences(pairs: Iterable[Pair]) -> list[PairedDifference]:
    return [difference for a, b in pairs if (difference := paired(a, b)) is not None]


def _published_wins(pairs: Iterable[Pair]) -> str:
    published = [(a.published_mean, b.published_mean) for a, b in pairs]
    known = [(a, b) for a, b in published if a is not None and b is not None]
    return f"{sum(a > b for a, b in known)} of {len(known)} as published" if known else "nothing published"


def _above_graphsage(found: Found) -> Finding:
    pairs = _table2_pairs(found["table2"], "graphsage")
    settings = len(DATASETS) * len(EPSILON_X) * len(EPSILON_Y)
    if not pairs:
        return Verdict.NOT_RUN, "Its fits are not finished."
    differences = _differences(pairs)
    by_dataset = [pooled(select_pairs) for d in DATASETS if (select_pairs := [p for p in pairs if p[0].dataset == d])]
    wins, least = sum(each.mean > 0 for each in differences), min(differences, key=lambda each: each.mean)
    where = pairs[differences.index(least)][0]
    verdict = Verdict.NOT_CONFIRMED
    if any(each.mean < 0 and each.clear_among(len(differences)) for each in differences):
        verdict = Verdict.REFUTED
    elif wins == len(pairs) and all(each is not None and each.clear for each in by_dataset):
        verdict = Verdict.CONFIRMED
    figures = (
        f"RGNN is above GraphSAGE in {wins} of {len(pairs)} settings ({_published_wins(pairs)}), clearly in "
        f"{sum(each.mean > 0 and each.clear for each in differences)}; the smallest difference is "
        f"{on_one_line(least)} points ({dataset_name(where.dataset)}, {budget_words(where)})."
    )
    return _unless_missing(verdict, figures, settings - len(pairs), len(pairs))


def _above_lpgnn(found: Found) -> Finding:
    pairs = _table2_pairs(found["table2"], "lpgnn")
    settings = len(DATASETS) * len(EPSILON_X) * len(EPSILON_Y)
    if not pairs:
        return Verdict.NOT_RUN, "Its fits are not finished."
    differences = _differences(pairs)
    wins, losses = sum(each.mean > 0 for each in differences), sum(each.mean < 0 and each.clear for each in differences)
    verdict = Verdict.NOT_CONFIRMED
    if losses > settings - CLAIMED_WINS:
        verdict = Verdict.REFUTED
    elif wins >= CLAIMED_WINS:
        verdict = Verdict.CONFIRMED
    figures = (
        f"RGNN is above LPGNN in {wins} of {len(pairs)} settings ({_published_wins(pairs)}), clearly in "
        f"{sum(each.mean > 0 and each.clear for each in differences)}, and clearly below in {losses}."
    )
    if equal := _differences(_table2_pairs(found["table2"], "lpgnn_equal")):
        figures += (
            f" LPGNN with the m that suits it, at the same user-level ε: RGNN above in "
            f"{sum(each.mean > 0 for each in equal)} of {len(equal)}, clearly below in "
            f"{sum(each.mean < 0 and each.clear for each in equal)}."
        )
    return _unless_missing(verdict, figures, settings - len(pairs), len(pairs))


def _student_reaches_the_ceiling(found: Found) -> Finding:
    ceiling = find(found["table1"], dataset="student", method="non_private")
    wanted = [
        (find(found["table2"], dataset="student", method="rgnn", epsilon_x=x, epsilon_y=y), ceiling)
        for x, y in itertools.product(EPSILON_X, (3.0, 2.0))
    ]
    made, missing = _compare([("Mean of four budgets with ε_y = 3 and 2", wanted)])
    if missing:
        return Verdict.NOT_RUN, "Its fits (Student in Tables 1 and 2) are not finished."
    difference = made[0].difference
    if difference.mean >= 0:
        verdict = Verdict.CONFIRMED
    else:
        verdict = Verdict.REFUTED if difference.clear else Verdict.NOT_CONFIRMED
    return verdict, f"RGNN minus the non-private GNN of Table 1. {made[0]}."


# The choice of GNN.


def _backbone_pairs(rows: Sequence[Row], better: str, worse: str) -> list[tuple[Row | None, Row | None]]:
    return [
        (
            find(rows, method="rgnn", epsilon_x=x, epsilon_y=y, backbone=better),
            find(rows, method="rgnn", epsilon_x=x, epsilon_y=y, backbone=worse),
        )
        for x, y in itertools.product(EPSILON_X, EPSILON_Y)
    ]


def _gcn_is_behind(found: Found) -> Finding:
    rows = found["fig_backbones"]
    return _each_above(
        "Mean of 8 budgets",
        (
            (f"{title} minus GCN", _backbone_pairs(rows, key, "gcn"))
            for key, title in (("gat", "GAT"), ("sage", "GraphSAGE"))
        ),
    )


def _gat_leads_without_privacy(found: Found) -> Finding:
    gat, *others = (find(found["fig_backbones"], method="non_private", backbone=key) for key in ("gat", "gcn", "sage"))
    titles = ("GAT minus GCN", "GAT minus GraphSAGE")
    pairs = [(title, [(gat, other)]) for title, other in zip(titles, others, strict=True)]
    return _each_above("GNNs on the true records", pairs)


# The ablation.


def _variants(rows: Sequence[Row], dataset: str) -> dict[str, Row]:
    return {row.variant: row for row in select(rows, dataset=dataset, method="rgnn")}


def _without_features_is_worst(found: Found) -> Finding:
    pairs = []
    for dataset in ("citeseer", "dblp"):
        variants = _variants(found["ablation"], dataset)
        for other in ("", "without f_Y", "without LLP"):
            what = f"{other or 'RGNN'} on {dataset_name(dataset)}"
            pairs.append((what, [(variants.get(other), variants.get("without f_X"))]))
    return _each_above("Difference to the variant without f_X", pairs)


def _every_component_helps(found: Found) -> Finding:
    pairs = []
    for part, dataset in itertools.product(("f_X", "f_Y", "LLP"), ("citeseer", "dblp")):
        variants = _variants(found["ablation"], dataset)
        pairs.append((f"{part} on {dataset_name(dataset)}", [(variants.get(""), variants.get(f"without {part}"))]))
    return _each_above("What the whole gains by each", pairs)


# Weight and number of bags.

_LLP_WEIGHTS = (0.01, 0.1, 1.0, 10.0, 20.0)
_NUM_CLUSTERS = (16, 32, 64, 128, 256)


def _swept_pairs(rows: Sequence[Row], key: str, values: tuple[float, float]) -> list[tuple[Row | None, Row | None]]:
    """Rows at one value and at another, over every value of the other parameter."""
    other, others = ("num_clusters", _NUM_CLUSTERS) if key == "llp_weight" else ("llp_weight", _LLP_WEIGHTS)
    bags = select(rows, dataset="dblp", method="rgnn")
    first, second = ([find(bags, **{key: value, other: each}) for each in others] for value in values)
    return list(zip(first, second, strict=True))


def _mean_by(rows: Sequence[Row], key: str) -> dict[float, float]:
    """Mean accuracy by the value of one swept parameter, over the other."""
    bags = select(rows, dataset="dblp", method="rgnn")
    values = sorted({row.swept[key] for row in bags if key in row.swept})
    return {value: statistics.mean(row.mean for row in select(bags, **{key: value})) for value in values}


def _means_in_words(means: Mapping[float, float], symbol: str) -> str:
    return f"Mean accuracy by {symbol}: " + ", ".join(f"{key:g}: {100 * mean:.1f}" for key, mean in means.items())


def _bags_are_whole(rows: Sequence[Row]) -> bool:
    bags = select(rows, dataset="dblp", method="rgnn")
    return all(
        find(bags, llp_weight=weight, num_clusters=number) for weight in _LLP_WEIGHTS for number in _NUM_CLUSTERS
    )


def _best_weight(found: Found) -> Finding:
    rows = found["fig_alpha_clusters"]
    if not _bags_are_whole(rows):
        return Verdict.NOT_RUN, "Its fits are not finished."
    means = _mean_by(rows, "llp_weight")
    inside = max((0.1, 1.0, 10.0), key=lambda each: means[each])
    outside = max((0.01, 20.0), key=lambda each: means[each])
    what = f"α = {inside:g} minus α = {outside:g}"
    made, _ = _compare([(what, _swept_pairs(rows, "llp_weight", (inside, outside)))])
    figures = f"{_means_in_words(means, 'α')}. The best inside and outside. {_in_words(made)}."
    return _verdict([each.difference for each in made]), figures


def _best_clusters(found: Found) -> Finding:
    rows = found["fig_alpha_clusters"]
    if not _bags_are_whole(rows):
        return Verdict.NOT_RUN, "Its fits are not finished."
    means = _mean_by(rows, "num_clusters")
    others = sorted(set(_NUM_CLUSTERS) - {128}, key=lambda each: -means[each])
    made, _ = _compare(
        (f"C = 128 minus C = {other}", _swept_pairs(rows, "num_clusters", (128, other))) for other in others
    )
    figures = f"{_means_in_words(means, 'C')}. Against the best other one. {made[0]}."
    return _verdict([each.difference for each in made]), figures


# Hops.


def _commonest(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return Counter(known).most_common(1)[0][0] if known else None


def feature_hops_sweep(rows: Sequence[Row], dataset: str, epsilon_x: float) -> dict[int, Row]:
    """The rows where K_x varies at epsilon_y = 1, by K_x. K_y is there what most of the rows share."""
    swept = select(rows, dataset=dataset, method="rgnn", epsilon_y=1.0)
    fixed = _commonest(row.swept.get("label_hops") for row in swept)
    chosen = select(swept, epsilon_x=epsilon_x, label_hops=fixed)
    return {row.swept["feature_hops"]: row for row in chosen if "feature_hops" in row.swept}


def label_hops_sweep(rows: Sequence[Row], dataset: str, epsilon_y: float) -> dict[int, Row]:
    """The rows where K_y varies at epsilon_x = 1, by K_y."""
    swept = select(rows, dataset=dataset, method="rgnn", epsilon_x=1.0, epsilon_y=epsilon_y)
    fixed = _commonest(row.swept.get("feature_hops") for row in swept)
    chosen = select(swept, feature_hops=fixed)
    return {row.swept["label_hops"]: row for row in chosen if "label_hops" in row.swept}


def _feature_hops(found: Found, more: int, fewer: int) -> list[NamedPairs]:
    pairs: list[NamedPairs] = []
    for dataset in ("citeseer", "dblp"):
        sweeps = [feature_hops_sweep(found["fig_hops"], dataset, x) for x in (1.0, 0.1, 0.01)]
        pairs.append((dataset_name(dataset), [(sweep.get(more), sweep.get(fewer)) for sweep in sweeps]))
    return pairs


def _drastic_gain(found: Found) -> Finding:
    made, missing = _compare(_feature_hops(found, 2, 0))
    differences = [each.difference for each in made]
    verdict = Verdict.NOT_CONFIRMED
    short = [
        PairedDifference(mean=each.mean - DRASTIC, standard_error=each.standard_error, seeds=each.seeds)
        for each in differences
    ]
    if any(each.mean < 0 and each.clear_among(len(short)) for each in short):
        verdict = Verdict.REFUTED
    elif all(each.clear for each in differences) and all(each.mean >= 0 for each in short):
        verdict = Verdict.CONFIRMED
    figures = (
        f"K_x = 2 minus K_x = 0, mean of three ε_x. {_in_words(made)}. "
        f"Drastic is read as {100 * DRASTIC:g} points or more."
        if made
        else ""
    )
    return _unless_missing(verdict, figures, missing, len(made))


def _label_hops(found: Found, budgets: Sequence[float], first: int, second: int) -> Finding:
    sweeps = [label_hops_sweep(found["fig_hops"], "dblp", y) for y in budgets]
    words = " and ".join(f"{y:g}" for y in budgets)
    return _each_above(
        f"K_y = {first} minus K_y = {second}",
        [(f"ε_y = {words}", [(sweep.get(first), sweep.get(second)) for sweep in sweeps])],
    )


_RESULT_CLAIMS = (
    _ResultClaim(
        name="RGNN is above GraphSAGE in every setting",
        where="Table 2",
        experiments=("table2",),
        decide=_above_graphsage,
    ),
    _ResultClaim(
        name=f"RGNN is above LPGNN in {CLAIMED_WINS} of 48 settings",
        where="Comparison with baselines",
        experiments=("table2",),
        decide=_above_lpgnn,
    ),
    _ResultClaim(
        name="On Student, RGNN is as good as a GNN without privacy at high label budgets",
        where="Comparison with baselines",
        experiments=("table1", "table2"),
        decide=_student_reaches_the_ceiling,
    ),
    _ResultClaim(
        name="With private data, GAT and GraphSAGE are above GCN as the backbone",
        where="Choice of GNN",
        experiments=("fig_backbones",),
        decide=_gcn_is_behind,
    ),
    _ResultClaim(
        name="Without privacy, GAT is above GCN and GraphSAGE",
        where="Choice of GNN",
        experiments=("fig_backbones",),
        decide=_gat_leads_without_privacy,
    ),
    _ResultClaim(
        name="RGNN without f_X is the worst variant",
        where="Ablation study",
        experiments=("ablation",),
        decide=_without_features_is_worst,
    ),
    _ResultClaim(
        name="Every component helps: f_X, f_Y and LLP",
        where="Ablation study",
        experiments=("ablation",),
        decide=_every_component_helps,
    ),
    _ResultClaim(
        name="The best α on DBLP is 0.1, 1 or 10",
        where="Hyperparameter sensitivity",
        experiments=("fig_alpha_clusters",),
        decide=_best_weight,
    ),
    _ResultClaim(
        name="The best C on DBLP is 128",
        where="Hyperparameter sensitivity",
        experiments=("fig_alpha_clusters",),
        decide=_best_clusters,
    ),
    _ResultClaim(
        name="From K_x = 0 to 2 there is a drastic gain",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=_drastic_gain,
    ),
    _ResultClaim(
        name="Beyond 2, accuracy rises further with K_x",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=lambda found: _each_above("K_x = 16 minus K_x = 2, mean of three ε_x", _feature_hops(found, 16, 2)),
    ),
    _ResultClaim(
        name="On DBLP, a larger K_y hurts at large ε_y",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=lambda found: _label_hops(found, (3.0, 2.0), 2, 16),
    ),
    _ResultClaim(
        name="On DBLP, a larger K_y helps at small ε_y",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=lambda found: _label_hops(found, (0.5,), 16, 2),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """A method against one other over the settings that both have.

    Attributes:
        method: the other one.
        clearly_above: settings where the first is above beyond noise.
        above: where it is above, but within noise.
        below: where it is not above, but within noise.
        clearly_below: where it is below beyond noise.
        mean: difference over all settings.
    """

    method: str
    clearly_above: int
    above: int
    below: int
    clearly_below: int
    mean: float

    @classmethod
    def of(cls, method: str, differences: Sequence[Difference]) -> Tally:
        """Count at least one difference."""
        above = [each for each in differences if each.mean > 0]
        below = [each for each in differences if each.mean <= 0]
        return cls(
            method=method,
            clearly_above=sum(each.clear for each in above),
            above=sum(not each.clear for each in above),
            below=sum(not each.clear for each in below),
            clearly_below=sum(each.clear for each in below),
            mean=statistics.mean(each.mean for each in differences),
        )

    @property
    def settings(self) -> int:
        """How many were compared."""
        return self.clearly_above + self.above + self.below + self.clearly_below

    @property
    def mean_text(self) -> str:
        """In points."""
        return signed_points(self.mean)


OPPONENTS = ("graphsage", "lpgnn", "lpgnn_equal", CONTROL, "majority", "non_private")


def wins_and_losses(rows: Sequence[Row]) -> list[Tally]:
    """RGNN against every other method, in every setting of Table 2 that both have finished."""
    tallies = []
    for method in OPPONENTS:
        pairs = [(row, other) for row in select(rows, method="rgnn") if (other := counterpart(row, rows, method))]
        if differences := _differences(pairs):
            tallies.append(Tally.of(method, differences))
    return tallies


def counterpart(row: Row, rows: Sequence[Row], method: str) -> Row | None:
    """Another method in the setting of a row, as far as that method depends on it."""
    same = select(rows, dataset=row.dataset, method=method)
    fitting = [
        each for each in same if each.epsilon_x in (None, row.epsilon_x) and each.epsilon_y in (None, row.epsilon_y)
    ]
    return fitting[0] if fitting else None
