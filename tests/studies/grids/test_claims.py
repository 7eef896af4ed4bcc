"""Verdicts follow from the rows."""

from __future__ import annotations

from collections.abc import Callable

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


VERDICTS = (Verdict.CONFIRMED, Verdict.NOT_CONFIRMED, Verdict.REFUTED)


# For each claim: results, and the three values of their argument that confirm it, leave it open, and refute it.
JUDGED: dict[str, tuple[Callable[[float], ResultsByExperiment], tuple[float, float, float]]] = {
    "GraphSAGE in every": (lambda sage: {"table2": table2(graphsage=sage)}, (0.3, 0.6, 0.9)),
    "LPGNN in 39": (lambda lpgnn: {"table2": table2(lpgnn=lpgnn)}, (0.5, 0.6, 0.7)),
    "On Student": (
        lambda mean: {"table1": [ceiling(mean, dataset="student")], "table2": table2()},
        (0.55, 0.6005, 0.7),
    ),
    "above GCN as the backbone": (lambda gcn: {"fig_backbones": backbones(gcn=gcn)}, (0.5, 0.6, 0.7)),
    "worst": (lambda features: {"ablation": ablation(features=features)}, (0.2, 0.4, 0.6)),
    "Every component": (lambda llp: {"ablation": ablation(llp=llp)}, (0.45, 0.5, 0.6)),
    "drastic": (lambda gain: {"fig_hops": hops(first_gain=gain)}, (0.1, 0.0495, 0.01)),
    "hurts at large": (lambda loss: {"fig_hops": hops(label_loss=loss)}, (0.01, 0.0, -0.01)),
    "helps at small": (lambda loss: {"fig_hops": hops(label_loss=loss)}, (0.01, 0.0, -0.01)),
}


@pytest.mark.parametrize("words", JUDGED)
def test_a_claim_is_confirmed_open_or_refuted_as_its_rows_say(words: str) -> None:
    results, values = JUDGED[words]
    assert tuple(judged(results(value), words).verdict for value in values) == VERDICTS


def test_the_best_bags_are_judged_by_their_place_and_their_lead() -> None:
    for words, name, best, other in (("best α", "best_weight", 1.0, 20.0), ("best C", "best_number", 128, 32)):
        cases = ({name: best, "lead": 0.05}, {name: best, "lead": 0.0001}, {name: other, "lead": 0.05})
        found = [judged({"fig_alpha_clusters": bags(**each)}, words).verdict for each in cases]  # type: ignore[arg-type]
        assert tuple(found) == VERDICTS


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


def test_an_unfinished_sweep_of_bags_is_not_judged() -> None:
    assert judged({"fig_alpha_clusters": bags()[:-1]}, "best C").verdict is Verdict.NOT_RUN


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
