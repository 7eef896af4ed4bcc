"""The curve page: it answers the question, names every relation, and calls nothing a ceiling that is none."""

from __future__ import annotations

import copy
import itertools
import shlex
from typing import Any

import pytest

from tests.support.parsed_page import Page, self_contained
from veilgraph.pages import curve_figure, render_curve_page
from veilgraph.pages.curve_page import (
    CampaignFiles,
    campaign_commands,
    ceilings_in_words,
    headline,
    invitation,
    recommended_design,
    recommended_method,
    spread_apart,
    summary,
)

FILES = CampaignFiles()
TOTALS = [0.5, 1.0, 4.0]


def accuracies(mean: float, spread: float = 0.01) -> dict[str, Any]:
    return {
        "accuracy_mean": mean,
        "accuracy_std": spread,
        "epsilon_user_level": 1.0,
        "accuracies": [mean - spread, mean, mean + spread],
        "seconds_mean": 0.1,
    }


def design(total: float, set_size: int, truth: float) -> dict[str, Any]:
    return {
        "epsilon": total,
        "classes": 10,
        "set_size": set_size,
        "names_true_class": truth,
        "guarantee": {},
        "guarantee_in_words": [f"User level, any two records: epsilon = {total:.4f} in total."],
        "rgnn": {"epsilon_x": total / 11, "epsilon_y": total / 11, "sampled": 10},
        "rgnn_best": {"epsilon_x": total / 100, "epsilon_y": 0.9 * total, "sampled": 10},
    }


@pytest.fixture
def result() -> dict[str, Any]:
    return {
        "dataset": "village",
        "graph": {
            "nodes": 1234,
            "edges": 5678,
            "mean_degree": 9.2,
            "features": 30,
            "classes": 10,
            "majority_share": 0.35,
        },
        "configuration": {"dataset": "village", "totals": TOTALS, "sampled": 10, "seeds": 3, "version": "9.8.7"},
        "totals": TOTALS,
        "designs": [design(0.5, 4, 0.52), design(1.0, 3, 0.538), design(4.0, 1, 0.858)],
        "methods": {
            "veil_labels": [accuracies(0.55), accuracies(0.78), accuracies(0.87)],
            "structure_only": [accuracies(0.45, 0.02), accuracies(0.70, 0.02), accuracies(0.86, 0.02)],
            "rgnn": [accuracies(0.2), accuracies(0.3), accuracies(0.4)],
            "rgnn_best": [accuracies(0.25), accuracies(0.5), accuracies(0.6)],
        },
        "not_private": {"veil_non_private": accuracies(0.88), "non_private": accuracies(0.80)},
    }


@pytest.fixture
def without_features(result: dict[str, Any]) -> dict[str, Any]:
    del result["methods"]["rgnn"], result["methods"]["rgnn_best"], result["not_private"]["non_private"]
    result["graph"]["features"] = 0
    for each in result["designs"]:
        del each["rgnn"], each["rgnn_best"]
    return result


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_page_is_complete_and_every_epsilon_has_its_relation(result: dict[str, Any]) -> None:
    untouched = copy.deepcopy(result)
    text = render_curve_page(result, FILES)
    page = self_contained(text)
    assert sum(tag == "table" for tag, _ in page.tags) == 4
    for words in (
        "Total epsilon user level, any two records",
        "total user-level ε (any two records)",
        "User level, any two records: epsilon = 1.0000 in total.",
        "epsilon_x = epsilon_y = total / (m + 1)",
        *("0.5000 4 of 10 52.0 in 100", "78.0 % ± 1.0", "+8.0 ± 0.6", "1,234", "9.8.7", "0.5, 1.0, 4.0"),
    ):
        assert words in page.text, words
    figure = curve_figure(result)
    for name in ("Veil", "Control", "RGNN, paper's split", "Veil without privacy", "GNN without privacy"):
        assert name in figure
    assert "Veil: 0.5: 55.0, 1: 78.0, 4: 87.0" in figure
    assert (render_curve_page(result, FILES), result) == (text, untouched)


def test_headline_answers_the_question_at_the_total_nearest_to_one(result: dict[str, Any]) -> None:
    assert plain(headline(result)) == (
        "With label sets at a total epsilon of 1 (user level, any two records), Veil predicts 78.0 % ± 1.0 "
        "(no privacy: 88.0 % ± 1.0). The largest class alone is right for 35.0 %."
    )
    result["graph"]["majority_share"] = 0.8
    assert "not clearly above always predicting the largest class (80.0 %)" in plain(headline(result))
    for key in ("totals", "designs"):
        result[key] = result[key][2:]
    result["methods"] = {name: points[2:] for name, points in result["methods"].items()}
    assert plain(headline(result)).startswith("With randomized labels at a total epsilon of 4 (user level, any two")


def test_a_handful_of_test_nodes_is_said(result: dict[str, Any]) -> None:
    assert not any("Only" in sentence for sentence in summary(result))
    result["graph"]["nodes"] = 100
    assert summary(result)[-2] == "Only 25 test nodes in each seed: one of them is 4.0 points of accuracy."


def test_nothing_is_recommended_where_no_method_is_clearly_above_the_largest_class(result: dict[str, Any]) -> None:
    # 308 of 1,234 people are tested: two standard errors of a share of 0.75 are 0.049.
    result["graph"]["majority_share"] = 0.75
    said = recommended_design(result)
    assert said.startswith("nothing. At a total of 1 no method is clearly above the largest class")
    assert said.endswith("From a total of 4 on, a method is above it.")
    assert campaign_commands(result, FILES) == []
    assert "veilgraph init" not in Page(render_curve_page(result, FILES)).text
    result["graph"]["nodes"] = 12_340
    assert recommended_design(result).startswith("Ask for the label alone")
    result["graph"]["majority_share"] = 0.95
    assert recommended_design(result).endswith("(veilgraph estimate).")


def test_summary_has_the_control_rgnn_and_the_price_of_privacy(result: dict[str, Any]) -> None:
    control, rgnn, close = map(plain, summary(result))
    # Differences by seed: 0.09, 0.08, 0.07.
    assert "reaches 70.0 % ± 2.0; Veil is 8.0 points above it, more than seeds differ by chance" in control
    assert rgnn == (
        "RGNN, which divides the total between 10 features and the label, reaches 30.0 % ± 1.0 at the same total, and "
        "50.0 % ± 1.0 with the division that suits it best (90 % for the label)."
    )
    assert close == "From a total of 4 on, Veil is within 2 points of its accuracy without privacy."
    result["methods"]["veil_labels"][2] = accuracies(0.8)
    assert "At a total of 4, the largest one here, Veil is 8.0 points below" in summary(result)[2]


def test_a_level_below_a_private_method_is_not_called_a_ceiling(result: dict[str, Any]) -> None:
    veil, gnn = map(plain, ceilings_in_words(result))
    assert veil == "Veil without privacy (88.0 %) is a ceiling here: no private method is above it."
    assert gnn == "GNN without privacy (80.0 %) is not a ceiling: Veil is above it at a total of 4."
    result["methods"]["rgnn"][2] = accuracies(0.89)
    assert "is not a ceiling: RGNN is above it at a total of 4" in plain(ceilings_in_words(result)[0])


def test_veil_is_recommended_unless_another_method_is_clearly_better(result: dict[str, Any]) -> None:
    assert recommended_method(result) == "veil_labels"
    assert recommended_design(result) == (
        "Ask for the label alone: each report names 3 of 10 classes, the true one among them with a chance of 53.8 in "
        "100. Then train Veil, the default."
    )
    result["methods"]["structure_only"][1] = accuracies(0.781, 0.05)  # better on average, within the spread
    assert recommended_method(result) == "veil_labels"
    result["methods"]["rgnn"][1] = accuracies(0.9)
    assert recommended_method(result) == "rgnn"
    assert "Ask for 10 features of each person at epsilon_x = 0.09091" in recommended_design(result)
    assert "With randomized features and labels" in headline(result)
    result["methods"]["rgnn_best"][1] = accuracies(0.92)
    assert recommended_method(result) == "rgnn_best"
    assert "epsilon_x = 0.01 and for the label at epsilon_y = 0.9," in recommended_design(result)


def test_commands_name_the_files_of_the_user_and_survive_a_shell(result: dict[str, Any]) -> None:
    files = CampaignFiles("my schema.toml", "e.csv", "n.csv", "it's private; rm x")
    new, plan = (shlex.split(command) for command in campaign_commands(result, files))
    assert new[:3] == ["veilgraph", "init", "collection"]
    options = dict(zip(new[3::2], new[4::2], strict=True))
    assert options["--schema"] == "my schema.toml"
    assert (options["--links"], options["--people"], options["--set"]) == ("e.csv", "n.csv", "epsilon_y=1")
    assert options["--question"] == "it's private; rm x"
    assert plan[:4] == ["veilgraph", "plan", "--epsilon", "1"]
    assert "with these files" in invitation(files)
    assert "with your own schema and graph" in invitation(FILES)
    result["methods"]["rgnn"][1] = accuracies(0.9)
    new = shlex.split(campaign_commands(result, files)[0])
    spending = dict(word.split("=") for word in new if word.startswith(("epsilon_", "sampled=")))
    spent = int(spending["sampled"]) * float(spending["epsilon_x"]) + float(spending["epsilon_y"])
    assert spent == pytest.approx(1.0)


def test_without_features_one_sentence_says_what_is_left_out(without_features: dict[str, Any]) -> None:
    text = Page(render_curve_page(without_features, FILES)).text
    assert "RGNN and the GNN without privacy need private features; here are none: they are left out." in text
    assert text.count("RGNN") == 1


def test_one_seed_has_no_spread(result: dict[str, Any]) -> None:
    result["configuration"]["seeds"] = 1
    for each in [*itertools.chain(*result["methods"].values()), *result["not_private"].values()]:
        each |= {"accuracy_std": None, "accuracies": each["accuracies"][1:2]}
    text = Page(render_curve_page(result, FILES)).text
    assert "Veil predicts 78.0 % (one seed)" in text
    assert "with one seed Veil is 8.0 points above it" in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("place", ["dataset", "configuration", "file"])
def test_hostile_text_stays_text(result: dict[str, Any], place: str) -> None:
    hostile = """<script>alert(1)</script>"><b $x$>"""
    files = FILES
    match place:
        case "dataset":
            result["dataset"] = hostile
        case "configuration":
            result["configuration"][hostile] = hostile
        case "file":
            files = CampaignFiles(hostile)
    page = Page(render_curve_page(result, files))
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert hostile in page.text


@pytest.mark.parametrize("heights", [[0.5, 0.5, 0.5], [0.98, 0.99, 1.0], [0.0, 0.01, 0.9]])
def test_names_beside_lines_do_not_overlap_and_stay_below_the_top(heights: list[float]) -> None:
    places = spread_apart(heights, gap=0.1, top=1.0)
    assert all(b - a > 0.1 - 1e-12 for a, b in itertools.pairwise(places))
    assert max(places) <= 1.0
