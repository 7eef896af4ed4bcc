"""Claims of the paper, each with a verdict that follows from the measured numbers."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from studies.grids.differences import Pair, Tally, clear_among, pooled
from studies.grids.sheets import Sheet, tallied
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import unbroken
from veilgraph.pages.paired_differences import (
    CONTROL,
    PairedDifference,
    ResultsByExperiment,
    counterpart,
    find,
    paired,
    select,
)
from veilgraph.pages.paper_figures import DATASETS, EPSILON_X, EPSILON_Y, feature_hops_sweep, label_hops_sweep
from veilgraph.pages.result_tables import Table, budget_text, dataset_name
from veilgraph.privacy.epsilon import short_epsilon
from veilgraph.privacy.mechanisms import GRRFS
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure

SETTINGS = len(DATASETS) * len(EPSILON_X) * len(EPSILON_Y)
"""Number of settings with published accuracies."""

DRASTIC = 0.05
"""Smallest gain that counts as "drastic": five percentage points."""
CLAIMED_WINS = 39
SAMPLED = 10
"""m, the number of sampled features in every setting."""
_CITESEER_FEATURES = 53


class Verdict(StrEnum):
    """Verdict on a claim."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    REFUTED = "refuted"
    NOT_RUN = "not run yet"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper.

    Attributes:
        name: the claim.
        where: section of the paper.
        experiments: experiments that decide the claim; none where computation decides it.
        verdict: verdict that follows from the evidence.
        evidence: measured numbers, in one or two sentences.
    """

    name: str
    where: str
    experiments: tuple[str, ...]
    verdict: Verdict
    evidence: str


Finding = tuple[Verdict, str]
_NOT_FINISHED: Finding = (Verdict.NOT_RUN, "Its fits are not finished.")


def judge_claims(results: ResultsByExperiment) -> list[Claim]:
    """Judge the privacy level of Theorem 1, then every claim of the paper's result sections in the paper's order.

    Args:
        results: rows by experiment. Claims about a missing or incomplete experiment are "not run yet".
    """
    rows: dict[str, Sequence[Row]] = {name: () for each in _RESULT_CLAIMS for name in each.experiments}
    rows |= results
    theorem_1 = Claim(
        name="GRR-FS has the privacy level of Theorem 1",
        where="Theorem 1: ε_X = ln(1 + (m/d)(e^(m ε_x) − 1))",
        experiments=(),
        verdict=Verdict.REFUTED,
        evidence=_theorem_1_evidence(),
    )
    return [theorem_1, *(each.judged(rows) for each in _RESULT_CLAIMS)]


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return claims, verdicts and evidence as a table."""
    return Table(
        title="Do the paper's claims hold?",
        columns=("Claim", "Verdict", "Figures"),
        text_columns=3,
        rows=tuple((claim.name, claim.verdict, claim.evidence) for claim in claims),
        note="",
    )


def _theorem_1_evidence() -> str:
    levels = []
    for epsilon_x in (1.0, 0.1, 0.01):
        exact = GRRFS((2,) * _CITESEER_FEATURES, sampled=SAMPLED, epsilon=epsilon_x).privacy_loss.user_level
        stated = theorem_1_figure(epsilon_x, SAMPLED, _CITESEER_FEATURES)
        levels.append(f"{short_epsilon(stated)} stated, {short_epsilon(exact)} exact at ε_x = {epsilon_x:g}")
    return (
        f"Citeseer, m = {SAMPLED} of d = {_CITESEER_FEATURES} features, any two records: {'; '.join(levels)}. "
        "Sampling features of one record gives no amplification: the exact level is m ε_x. "
        "The command veilgraph account --audit shows this from reports."
    )


@dataclass(frozen=True, kw_only=True)
class _ResultClaim:
    """A claim and the function that decides it from rows."""

    name: str
    where: str
    experiments: tuple[str, ...]
    decide: Callable[[ResultsByExperiment], Finding]

    def judged(self, results: ResultsByExperiment) -> Claim:
        verdict, evidence = self.decide(results)
        return Claim(name=self.name, where=self.where, experiments=self.experiments, verdict=verdict, evidence=evidence)


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """A difference that is above zero if the claim holds."""

    name: str
    difference: PairedDifference

    def __str__(self) -> str:
        return f"{self.name}: {unbroken(self.difference)}"


def _verdict(differences: Sequence[PairedDifference]) -> Verdict:
    """Confirm if every difference is clear; refute if one is clearly negative after a Bonferroni correction."""
    if any(each.mean < 0 and clear_among(each, len(differences)) for each in differences):
        return Verdict.REFUTED
    if differences and all(each.mean > 0 and each.clear for each in differences):
        return Verdict.CONFIRMED
    return Verdict.NOT_CONFIRMED


NamedPairs = tuple[str, Sequence[tuple[Row | None, Row | None]]]
"""Name of a comparison, and its pairs of rows; None for a row that is not finished."""


def _in_words(made: Iterable[_Comparison]) -> str:
    return "; ".join(map(str, made))


def _compare(pairs: Iterable[NamedPairs]) -> tuple[list[_Comparison], int]:
    """Return one comparison for each list of pairs, pooled over the list, and the number of unfinished ones."""
    made, missing = [], 0
    for name, wanted in pairs:
        whole = [(a, b) for a, b in wanted if a is not None and b is not None]
        difference = pooled(whole) if len(whole) == len(wanted) else None
        if difference is None:
            missing += 1
        else:
            made.append(_Comparison(name=name, difference=difference))
    return made, missing


def _each_above(lead: str, pairs: Iterable[NamedPairs]) -> Finding:
    """Judge a claim that several differences are above zero; `lead` introduces them."""
    made, missing = _compare(pairs)
    evidence = f"{lead}. {_in_words(made)}." if made else ""
    return _unless_missing(_verdict([each.difference for each in made]), evidence, missing, len(made))


def _unless_missing(verdict: Verdict, evidence: str, missing: int, made: int) -> Finding:
    """Keep a refutation although comparisons are missing; every other verdict becomes "not run yet"."""
    if not missing:
        return verdict, evidence
    if not made:
        return _NOT_FINISHED
    note = f"{made} of {made + missing} comparisons are finished."
    return (verdict if verdict is Verdict.REFUTED else Verdict.NOT_RUN), f"{note} {evidence}".strip()


# Table 2.


def _table2_pairs(rows: Sequence[Row], other: str) -> list[Pair]:
    """Return RGNN and another method in the paper's settings, where both are finished."""
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


def _above_graphsage(results: ResultsByExperiment) -> Finding:
    pairs = _table2_pairs(results["table2"], "graphsage")
    if not pairs:
        return _NOT_FINISHED
    differences = _differences(pairs)
    by_dataset = [pooled(select_pairs) for d in DATASETS if (select_pairs := [p for p in pairs if p[0].dataset == d])]
    wins, least = sum(each.mean > 0 for each in differences), min(differences, key=lambda each: each.mean)
    where = pairs[differences.index(least)][0]
    verdict = Verdict.NOT_CONFIRMED
    if any(each.mean < 0 and clear_among(each, len(differences)) for each in differences):
        verdict = Verdict.REFUTED
    elif wins == len(pairs) and all(each is not None and each.clear for each in by_dataset):
        verdict = Verdict.CONFIRMED
    evidence = (
        f"RGNN is above GraphSAGE in {wins} of {len(pairs)} settings ({_published_wins(pairs)}), clearly in "
        f"{sum(each.mean > 0 and each.clear for each in differences)}; the smallest difference is "
        f"{unbroken(least)} points ({dataset_name(where.dataset)}, {budget_text(where)})."
    )
    return _unless_missing(verdict, evidence, SETTINGS - len(pairs), len(pairs))


def _above_lpgnn(results: ResultsByExperiment) -> Finding:
    pairs = _table2_pairs(results["table2"], "lpgnn")
    if not pairs:
        return _NOT_FINISHED
    differences = _differences(pairs)
    wins, losses = sum(each.mean > 0 for each in differences), sum(each.mean < 0 and each.clear for each in differences)
    verdict = Verdict.NOT_CONFIRMED
    if losses > SETTINGS - CLAIMED_WINS:
        verdict = Verdict.REFUTED
    elif wins >= CLAIMED_WINS:
        verdict = Verdict.CONFIRMED
    evidence = (
        f"RGNN is above LPGNN in {wins} of {len(pairs)} settings ({_published_wins(pairs)}), clearly in "
        f"{sum(each.mean > 0 and each.clear for each in differences)}, and clearly below in {losses}."
    )
    if equal := _differences(_table2_pairs(results["table2"], "lpgnn_equal")):
        evidence += (
            f" LPGNN with its best m, at the same user-level ε: RGNN above in "
            f"{sum(each.mean > 0 for each in equal)} of {len(equal)}, clearly below in "
            f"{sum(each.mean < 0 and each.clear for each in equal)}."
        )
    return _unless_missing(verdict, evidence, SETTINGS - len(pairs), len(pairs))


def _student_reaches_the_ceiling(results: ResultsByExperiment) -> Finding:
    ceiling = find(results["table1"], dataset="student", method="non_private")
    wanted = [
        (find(results["table2"], dataset="student", method="rgnn", epsilon_x=x, epsilon_y=y), ceiling)
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


def _gcn_is_behind(results: ResultsByExperiment) -> Finding:
    rows = results["fig_backbones"]
    return _each_above(
        "Mean of 8 budgets",
        (
            (f"{title} minus GCN", _backbone_pairs(rows, key, "gcn"))
            for key, title in (("gat", "GAT"), ("sage", "GraphSAGE"))
        ),
    )


def _gat_leads_without_privacy(results: ResultsByExperiment) -> Finding:
    gat, *others = (
        find(results["fig_backbones"], method="non_private", backbone=key) for key in ("gat", "gcn", "sage")
    )
    titles = ("GAT minus GCN", "GAT minus GraphSAGE")
    pairs = [(title, [(gat, other)]) for title, other in zip(titles, others, strict=True)]
    return _each_above("GNNs on the true records", pairs)


# The ablation.


def _variants(rows: Sequence[Row], dataset: str) -> dict[str, Row]:
    return {row.variant: row for row in select(rows, dataset=dataset, method="rgnn")}


def _without_features_is_worst(results: ResultsByExperiment) -> Finding:
    pairs = []
    for dataset in ("citeseer", "dblp"):
        variants = _variants(results["ablation"], dataset)
        for other in ("", "without f_Y", "without LLP"):
            name = f"{other or 'RGNN'} on {dataset_name(dataset)}"
            pairs.append((name, [(variants.get(other), variants.get("without f_X"))]))
    return _each_above("Difference to the variant without f_X", pairs)


def _every_component_helps(results: ResultsByExperiment) -> Finding:
    pairs = []
    for part, dataset in itertools.product(("f_X", "f_Y", "LLP"), ("citeseer", "dblp")):
        variants = _variants(results["ablation"], dataset)
        pairs.append((f"{part} on {dataset_name(dataset)}", [(variants.get(""), variants.get(f"without {part}"))]))
    return _each_above("Gain of RGNN from each component", pairs)


# Weight and number of bags.

_LLP_WEIGHTS = (0.01, 0.1, 1.0, 10.0, 20.0)
_NUM_CLUSTERS = (16, 32, 64, 128, 256)


def _swept_pairs(rows: Sequence[Row], key: str, values: tuple[float, float]) -> list[tuple[Row | None, Row | None]]:
    """Return rows at two values of one parameter, for every value of the other parameter."""
    other, others = ("num_clusters", _NUM_CLUSTERS) if key == "llp_weight" else ("llp_weight", _LLP_WEIGHTS)
    bags = select(rows, dataset="dblp", method="rgnn")
    first, second = ([find(bags, **{key: value, other: each}) for each in others] for value in values)
    return list(zip(first, second, strict=True))


def _mean_by(rows: Sequence[Row], key: str) -> dict[float, float]:
    """Return the mean accuracy at each value of one swept parameter, over all values of the other."""
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


def _best_weight(results: ResultsByExperiment) -> Finding:
    rows = results["fig_alpha_clusters"]
    if not _bags_are_whole(rows):
        return _NOT_FINISHED
    means = _mean_by(rows, "llp_weight")
    inside = max((0.1, 1.0, 10.0), key=lambda each: means[each])
    outside = max((0.01, 20.0), key=lambda each: means[each])
    name = f"α = {inside:g} minus α = {outside:g}"
    made, _ = _compare([(name, _swept_pairs(rows, "llp_weight", (inside, outside)))])
    evidence = f"{_means_in_words(means, 'α')}. The best α of the claim against the best other one. {_in_words(made)}."
    return _verdict([each.difference for each in made]), evidence


def _best_clusters(results: ResultsByExperiment) -> Finding:
    rows = results["fig_alpha_clusters"]
    if not _bags_are_whole(rows):
        return _NOT_FINISHED
    means = _mean_by(rows, "num_clusters")
    others = sorted(set(_NUM_CLUSTERS) - {128}, key=lambda each: -means[each])
    made, _ = _compare(
        (f"C = 128 minus C = {other}", _swept_pairs(rows, "num_clusters", (128, other))) for other in others
    )
    evidence = f"{_means_in_words(means, 'C')}. Against the best other number of bags. {made[0]}."
    return _verdict([each.difference for each in made]), evidence


# Hops.


def _feature_hops(results: ResultsByExperiment, more: int, fewer: int) -> list[NamedPairs]:
    pairs: list[NamedPairs] = []
    for dataset in ("citeseer", "dblp"):
        sweeps = [feature_hops_sweep(results["fig_hops"], dataset, x) for x in (1.0, 0.1, 0.01)]
        pairs.append((dataset_name(dataset), [(sweep.get(more), sweep.get(fewer)) for sweep in sweeps]))
    return pairs


def _drastic_gain(results: ResultsByExperiment) -> Finding:
    made, missing = _compare(_feature_hops(results, 2, 0))
    differences = [each.difference for each in made]
    verdict = Verdict.NOT_CONFIRMED
    short = [
        PairedDifference(mean=each.mean - DRASTIC, standard_error=each.standard_error, seeds=each.seeds)
        for each in differences
    ]
    if any(each.mean < 0 and clear_among(each, len(short)) for each in short):
        verdict = Verdict.REFUTED
    elif all(each.clear for each in differences) and all(each.mean >= 0 for each in short):
        verdict = Verdict.CONFIRMED
    evidence = (
        f"K_x = 2 minus K_x = 0, mean of three ε_x. {_in_words(made)}. Drastic means {100 * DRASTIC:g} points or more."
        if made
        else ""
    )
    return _unless_missing(verdict, evidence, missing, len(made))


def _label_hops(results: ResultsByExperiment, budgets: Sequence[float], first: int, second: int) -> Finding:
    sweeps = [label_hops_sweep(results["fig_hops"], "dblp", y) for y in budgets]
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
        decide=lambda results: _each_above("K_x = 16 minus K_x = 2, mean of three ε_x", _feature_hops(results, 16, 2)),
    ),
    _ResultClaim(
        name="On DBLP, a larger K_y hurts at large ε_y",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=lambda results: _label_hops(results, (3.0, 2.0), 2, 16),
    ),
    _ResultClaim(
        name="On DBLP, a larger K_y helps at small ε_y",
        where="Propagation parameter study",
        experiments=("fig_hops",),
        decide=lambda results: _label_hops(results, (0.5,), 16, 2),
    ),
)


_OPPONENTS = ("graphsage", "lpgnn", "lpgnn_equal", CONTROL, "majority", "non_private")


def wins_and_losses(rows: Sequence[Row]) -> list[Tally]:
    """Count the settings of Table 2 in which RGNN is above or below each other method."""
    tallies = []
    for method in _OPPONENTS:
        pairs = [(row, other) for row in select(rows, method="rgnn") if (other := counterpart(row, rows, method))]
        if differences := _differences(pairs):
            tallies.append(Tally.of(method, differences))
    return tallies


def tally_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table "Wins and losses of RGNN", or None."""
    title = "Wins and losses of RGNN over all finished settings, ε_x = 0.01 included"
    return tallied("table2-tallies", title, wins_and_losses(rows))
