"""Verdicts follow from the rows."""

from __future__ import annotations

import pytest
from studies.grids.claims import Claim, Verdict, judge_claims, wins_and_losses

from tests.support.result_rows import ablation, backbones, bags, ceiling, everything, flat, hops, row, table2
from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import ResultsByExperiment


def judged(found: ResultsByExperiment, words: str) -> Claim:
    [claim] = [claim for claim in judge_claims(found) if words in claim.name]
    return claim


def test_theorem_1_is_refuted_by_computation_alone() -> None:
    claim = judged({}, "Theorem 1")
    assert claim.verdict is Verdict.REFUTED
    assert "8.3325 stated, 10 exact at ε_x = 1" in claim.evidence
    assert "veilgraph account --audit" in claim.evidence


def test_without_rows_every_other_claim_is_not_run_yet() -> None:
    _, *claims = judge_claims({})
    assert len(claims) == 13
    assert {claim.verdict for claim in claims} == {Verdict.NOT_RUN}
    assert all(claim.evidence for claim in claims)


def test_results_like_the_papers_confirm_its_claims() -> None:
    _, *claims = judge_claims(everything())
    assert [claim.name for claim in claims if claim.verdict is not Verdict.CONFIRMED] == []


@pytest.mark.parametrize(
    ("graphsage", "verdict"), [(0.3, Verdict.CONFIRMED), (0.6, Verdict.NOT_CONFIRMED), (0.9, Verdict.REFUTED)]
)
def test_rgnn_above_graphsage(graphsage: float, verdict: Verdict) -> None:
    assert judged({"table2": table2(graphsage=graphsage)}, "GraphSAGE in every").verdict is verdict


def test_a_single_clear_loss_refutes_everywhere() -> None:
    rows = [r for r in table2() if not (r.dataset == "cora" and r.method == "graphsage" and r.epsilon_x == 1.0)]
    rows += [flat(0.9, dataset="cora", method="graphsage", epsilon_y=y) for y in (3.0, 2.0, 1.0, 0.5)]
    claim = judged({"table2": rows}, "GraphSAGE in every")
    assert claim.verdict is Verdict.REFUTED
    assert "above GraphSAGE in 44 of 48 settings (48 of 48 as published)" not in claim.evidence
    assert "above GraphSAGE in 44 of 48" in claim.evidence


def test_a_setting_that_is_missing_leaves_the_claim_open() -> None:
    rows = [r for r in table2() if r.dataset != "student"]
    claim = judged({"table2": rows}, "GraphSAGE in every")
    assert claim.verdict is Verdict.NOT_RUN
    assert claim.evidence.startswith("40 of 48 comparisons are finished.")


@pytest.mark.parametrize(
    ("lpgnn", "verdict"), [(0.5, Verdict.CONFIRMED), (0.6, Verdict.NOT_CONFIRMED), (0.7, Verdict.REFUTED)]
)
def test_rgnn_above_lpgnn_is_counted(lpgnn: float, verdict: Verdict) -> None:
    claim = judged({"table2": table2(lpgnn=lpgnn)}, "LPGNN in 39")
    assert claim.verdict is verdict
    assert "at the same user-level ε: RGNN above in 48 of 48" in claim.evidence or lpgnn == 0.7


@pytest.mark.parametrize(
    ("without_private", "verdict"), [(0.55, Verdict.CONFIRMED), (0.6005, Verdict.NOT_CONFIRMED), (0.7, Verdict.REFUTED)]
)
def test_student_reaches_the_ceiling(without_private: float, verdict: Verdict) -> None:
    found = {"table1": [ceiling(without_private, dataset="student")], "table2": table2()}
    assert judged(found, "On Student").verdict is verdict


@pytest.mark.parametrize(
    ("gcn", "verdict"), [(0.5, Verdict.CONFIRMED), (0.6, Verdict.NOT_CONFIRMED), (0.7, Verdict.REFUTED)]
)
def test_gcn_is_behind(gcn: float, verdict: Verdict) -> None:
    assert judged({"fig_backbones": backbones(gcn=gcn)}, "above GCN as the backbone").verdict is verdict


@pytest.mark.parametrize(
    ("features", "verdict"), [(0.2, Verdict.CONFIRMED), (0.4, Verdict.NOT_CONFIRMED), (0.6, Verdict.REFUTED)]
)
def test_without_features_is_worst(features: float, verdict: Verdict) -> None:
    assert judged({"ablation": ablation(features=features)}, "worst").verdict is verdict


@pytest.mark.parametrize(
    ("llp", "verdict"), [(0.45, Verdict.CONFIRMED), (0.5, Verdict.NOT_CONFIRMED), (0.6, Verdict.REFUTED)]
)
def test_every_component_helps(llp: float, verdict: Verdict) -> None:
    claim = judged({"ablation": ablation(llp=llp)}, "Every component")
    assert claim.verdict is verdict
    assert "LLP on DBLP: " in claim.evidence


@pytest.mark.parametrize(
    ("weight", "lead", "verdict"),
    [(1.0, 0.05, Verdict.CONFIRMED), (1.0, 0.0001, Verdict.NOT_CONFIRMED), (20.0, 0.05, Verdict.REFUTED)],
)
def test_best_weight(weight: float, lead: float, verdict: Verdict) -> None:
    assert judged({"fig_alpha_clusters": bags(best_weight=weight, lead=lead)}, "best α").verdict is verdict


@pytest.mark.parametrize(
    ("number", "lead", "verdict"),
    [(128, 0.05, Verdict.CONFIRMED), (128, 0.0001, Verdict.NOT_CONFIRMED), (32, 0.05, Verdict.REFUTED)],
)
def test_best_number_of_bags(number: int, lead: float, verdict: Verdict) -> None:
    assert judged({"fig_alpha_clusters": bags(best_number=number, lead=lead)}, "best C").verdict is verdict


def test_an_unfinished_sweep_of_bags_is_not_judged() -> None:
    assert judged({"fig_alpha_clusters": bags()[:-1]}, "best C").verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("gain", "verdict"), [(0.1, Verdict.CONFIRMED), (0.0495, Verdict.NOT_CONFIRMED), (0.01, Verdict.REFUTED)]
)
def test_drastic_gain_means_five_points(gain: float, verdict: Verdict) -> None:
    assert judged({"fig_hops": hops(first_gain=gain)}, "drastic").verdict is verdict


@pytest.mark.parametrize(
    ("loss", "verdict"), [(0.01, Verdict.CONFIRMED), (0.0, Verdict.NOT_CONFIRMED), (-0.01, Verdict.REFUTED)]
)
def test_label_hops_on_dblp(loss: float, verdict: Verdict) -> None:
    found = {"fig_hops": hops(label_loss=loss)}
    assert judged(found, "hurts at large").verdict is verdict
    assert judged(found, "helps at small").verdict is verdict


def test_one_seed_confirms_and_refutes_nothing() -> None:
    def first_seed(each: Row) -> Row:
        return row(each.mean, seeds=1, dataset=each.dataset, variant=each.variant, method=each.method)

    found = {"ablation": [first_seed(each) for each in ablation()]}
    assert judged(found, "Every component").verdict is Verdict.NOT_CONFIRMED


def test_wins_and_losses_count_every_setting() -> None:
    tallies = {tally.method: tally for tally in wins_and_losses(table2())}
    assert tallies["graphsage"].clearly_above == tallies["graphsage"].settings == 72
    assert tallies["structure_only"].clearly_below == 72
    assert tallies["structure_only"].mean_text == "−5.0"
    equal = {tally.method: tally for tally in wins_and_losses(table2(structure=0.6))}["structure_only"]
    assert equal.above + equal.below == 72
