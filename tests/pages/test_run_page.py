"""The run page: complete, self-contained, safe to open, and the same for the same run."""

from __future__ import annotations

import copy
import importlib
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.parsed_page import Page, self_contained
from veilgraph.errors import MissingExtraError
from veilgraph.pages import accuracy_figure, render_run_page
from veilgraph.pages.run_page import headline


def method(accuracies: list[float], std: float | None, epsilon: float | str) -> dict[str, Any]:
    return {
        "accuracy_mean": sum(accuracies) / len(accuracies),
        "accuracy_std": std,
        "epsilon_user_level": epsilon,
        "accuracies": accuracies,
        "seconds_mean": 0.4321,
    }


def curve(selected: int) -> dict[str, Any]:
    return {
        "train_loss": [3.0, 2.0, 1.5],
        "validation_score": [-0.7, -0.6, -0.65],
        "selected_epoch": selected,
    }


def make_result() -> dict[str, Any]:
    return {
        "dataset": "village",
        "graph": {
            "nodes": 1234,
            "edges": 5678,
            "mean_degree": 9.2,
            "features": 3,
            "classes": 2,
            "majority_share": 0.55,
        },
        "configuration": {
            "dataset": "village",
            "budget": {"epsilon_x": 1.0, "epsilon_y": 1, "sampled": 2},
            "backbone": "sage",
            "seeds": 2,
            "feature_hops": None,
            "label_hops": 4,
            "num_clusters": 16,
            "llp_weight": 1.0,
            "epochs": 3,
            "version": "9.8.7",
        },
        "guarantee": {
            "user_level": {"features": 2.0, "label": 1.0, "total": 3.0},
            "attribute_level": {"features": [0.5, 0.25, 0.5], "label": 1.0},
            "theorem_1": 1.7654,
            "theorem_1_is_a_guarantee": False,
            "relations": {
                "user_level": "any two records",
                "attribute_level": "two records that differ in one feature",
            },
        },
        "guarantee_in_words": ["User level, any two records: epsilon = 3.0000 in total.", "A second sentence."],
        "label": {"classes": 2, "set_size": 1, "names_true_class": 0.7311},
        "methods": {
            "rgnn": method([0.8, 0.9], 0.0707, 3.0),
            "plain": method([0.5, 0.6], 0.0707, 3.0),
            "structure_only": method([0.84, 0.92], 0.0566, 1.0),
            "non_private": method([0.9, 0.94], 0.0283, "not private"),
        },
        "learning_curves": {"rgnn": [curve(1), curve(0)], "plain": [curve(1)] * 2, "non_private": [curve(2)] * 2},
        "frequencies": [
            {"feature": "age", "value": "1", "true": 0.3, "estimated": 0.35, "standard_error": 0.05},
            {"feature": "job", "value": "0", "true": 0.2, "estimated": -0.1, "standard_error": 0.1},
            {"feature": "job", "value": "1", "true": 0.7, "estimated": 1.1, "standard_error": 0.3},
        ],
    }


@pytest.fixture
def result() -> dict[str, Any]:
    return make_result()


@pytest.fixture(scope="module")
def page_text() -> str:
    """Return the page of the result, rendered once for the tests that change nothing."""
    return render_run_page(make_result())


@pytest.fixture
def one_seed(result: dict[str, Any]) -> dict[str, Any]:
    result["configuration"]["seeds"] = 1
    for summary in result["methods"].values():
        summary["accuracies"] = summary["accuracies"][:1]
        summary |= {"accuracy_mean": summary["accuracies"][0], "accuracy_std": None}
    result["learning_curves"] = {key: curves[:1] for key, curves in result["learning_curves"].items()}
    return result


def test_page_is_complete_with_every_epsilon_and_its_relation(page_text: str, result: dict[str, Any]) -> None:
    page = self_contained(page_text)
    counts = [sum(tag == wanted for tag, _ in page.tags) for wanted in ("svg", "table")]
    assert counts == [6, 4]  # accuracy twice (desktop, phone), three learning curves, frequencies
    text = page.text
    for words in (
        *("RGNN", "Plain GNN on reports", "Control: structure only", "Non-private GNN"),
        *("3.0000", "2.0000", "1.0000", "0.2500 to 0.5000", "not private"),
        "User-level epsilon spent any two records",
        "User level any two records",
        "Attribute level two records that differ in one feature",
        "85.0 % ± 7.1 −3.0 ± 1.0",  # by seed 0.80 - 0.84 and 0.90 - 0.92: mean -3 points, standard error 1 point
        "2 of 3 true frequencies lie within their 95 % interval",
        *("1,234", "5,678", "9.8.7", "Hops of feature reconstruction (K_x) chosen in each fit"),
        "They are not covered by the guarantee above.",
        "Do not publish such a page for real private data.",
        *result["guarantee_in_words"],
    ):
        assert words in text, words
    assert text.index("Laboratory page from a simulation") < text.index("What can be learned from randomized")


def test_label_reports_are_described_and_sets_of_veil_are_told_apart(page_text: str, result: dict[str, Any]) -> None:
    text = Page(page_text).text
    assert "each report names one of 2 classes, the true one with a chance of 73.1 in 100" in text
    assert "They have the same label reports too." in text
    result["label"] = {"classes": 10, "set_size": 3, "names_true_class": 0.538}
    text = Page(render_run_page(result)).text
    assert "each report names 3 of 10 classes, the true one among them with a chance of 53.8 in 100" in text
    assert "RGNN and the plain GNN have labels by GRR at the same epsilon" in text


def test_a_run_without_features_has_no_rgnn(result: dict[str, Any]) -> None:
    methods = result["methods"]
    result["methods"] = {
        "veil_labels": methods["rgnn"],
        "structure_only": methods["structure_only"],
        "veil_non_private": methods["non_private"],
    }
    result |= {"learning_curves": {}, "frequencies": []}
    text = Page(render_run_page(result)).text
    assert "RGNN" not in text
    result["configuration"]["budget"] = {"epsilon_x": None, "epsilon_y": 1.0, "sampled": None}
    assert "Features sampled by each person (m) not collected" in Page(render_run_page(result)).text
    assert "Veil without features reaches 85.0 % ± 7.1 at a user-level epsilon of 3" in text
    assert "the non-private Veil reaches 92.0 % ± 2.8" in text


def test_theorem_1_is_marked_as_no_guarantee_and_may_be_missing(page_text: str, result: dict[str, Any]) -> None:
    assert "Theorem 1 of the paper not a guarantee 1.7654" in Page(page_text).text
    result["guarantee"]["theorem_1"] = None
    assert "Theorem 1 of the paper" not in render_run_page(result)


@pytest.mark.parametrize(
    ("rgnn", "verdict"),
    [
        ([0.80, 0.90, 0.80], "RGNN is not above the control that uses no features: 3.3 points below, within the"),
        (
            [0.84, 0.93, 0.83],
            "RGNN is level with the control that uses no features: their mean difference rounds to 0.0",
        ),
        ([0.85, 0.90, 0.90], "RGNN is 1.7 points above the control that uses no features, within the"),
        ([0.70, 0.80, 0.70], "The control that uses no features beats RGNN by 13.3 points."),
        ([0.95, 0.99, 0.95], "RGNN beats the control that uses no features by 9.7 points."),
        ([0.50, 0.60, 0.50], "RGNN is not above always predicting the largest class (55.0 %)."),
    ],
)
def test_verdict_is_plain_about_the_control(result: dict[str, Any], rgnn: list[float], verdict: str) -> None:
    result["methods"]["rgnn"] = method(rgnn, 0.05, 3.0)
    result["methods"]["structure_only"]["accuracies"] = [0.85, 0.92, 0.83]
    assert verdict in headline(result).replace("\N{NO-BREAK SPACE}", " ")


def test_same_result_gives_the_same_bytes(page_text: str, result: dict[str, Any]) -> None:
    untouched = copy.deepcopy(result)
    assert render_run_page(result) == page_text
    assert result == untouched


@pytest.mark.parametrize("place", ["dataset", "configuration", "sentence", "relation", "method"])
def test_hostile_text_stays_text(result: dict[str, Any], place: str) -> None:
    hostile = """<script>alert('1')</script>"><b $x$>"""
    match place:
        case "dataset":
            result["dataset"] = hostile
        case "configuration":
            result["configuration"][hostile] = hostile
        case "sentence":
            result["guarantee_in_words"] = [hostile]
        case "relation":
            result["guarantee"]["relations"]["user_level"] = hostile
        case "method":
            result["methods"][hostile] = result["methods"]["plain"]
            result["learning_curves"][hostile] = result["learning_curves"]["plain"]
    page = Page(render_run_page(result))
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert hostile in page.text


def test_one_seed_has_no_spread(one_seed: dict[str, Any]) -> None:
    text = Page(render_run_page(one_seed)).text
    assert "80.0 % (one seed)" in text
    assert "With one seed, RGNN is not above the control that uses no features" in text
    assert "nan" not in text.lower()


def test_a_run_without_curves_frequencies_or_privacy_leaves_these_parts_out(result: dict[str, Any]) -> None:
    guarantee = result["guarantee"]
    guarantee["user_level"] = dict.fromkeys(guarantee["user_level"], "not private")
    guarantee["attribute_level"] = {"features": ["not private"] * 3, "label": "not private"}
    for summary in result["methods"].values():
        summary["epsilon_user_level"] = "not private"
    text = Page(render_run_page(result)).text
    assert "User level any two records not private not private not private" in text
    assert "RGNN reaches 85.0 % ± 7.1 without privacy" in text
    result |= {"learning_curves": {}, "frequencies": []}
    text = Page(render_run_page(result)).text
    assert "Training curves" not in text
    assert "Feature frequencies from the reports" not in text


def test_standalone_figure_is_an_xml_file_with_both_themes(result: dict[str, Any]) -> None:
    text = accuracy_figure(result)
    root = ElementTree.fromstring(text)  # noqa: S314  our own text
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in text
    assert "RGNN, ε = 3" in "".join(root.itertext())


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_missing_extra_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module or "veilgraph.pages" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs {module}.*veilgraph\[lab\]"):
        importlib.import_module("veilgraph.pages.run_page")
