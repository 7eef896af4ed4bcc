"""The epsilon of an accuracy follows from the measured points; an accuracy that is not reached is reported."""

from __future__ import annotations

import csv
import io
import math

import pytest
from studies.grids.frontier import (
    Price,
    PublishedAccuracy,
    ceiling_in_words,
    curve,
    divided_curve,
    epsilon_needed,
    frontier_overview,
    frontier_panels,
    price_sheet,
    prices,
    prices_in_words,
    published_accuracies,
    split_cases,
    split_sheet,
    splits_in_words,
)

from tests.support.result_rows import FRONTIER_TOTALS, ceiling, control, flat, frontier, row
from veilgraph.pages.paper_figures import DATASETS
from veilgraph.pages.result_tables import records_csv

POINTS = [(0.25, 0.3), (0.5, 0.5), (1.0, 0.45), (4.0, 0.9)]


def published(
    mean: float, *, epsilon_x: float = 0.1, epsilon_y: float = 3.0, dataset: str = "cora"
) -> PublishedAccuracy:
    return PublishedAccuracy(dataset=dataset, epsilon_x=epsilon_x, epsilon_y=epsilon_y, mean=mean, std=0.01)


@pytest.mark.parametrize(
    ("accuracy", "epsilon"), [(0.5, 0.5), (0.4, 0.25 * math.sqrt(2)), (0.9, 4.0), (0.7, 2.0), (0.2, 0.25)]
)
def test_needed_epsilon_is_on_the_line_between_points_of_the_running_maximum(accuracy: float, epsilon: float) -> None:
    """The running maximum goes from (1, 0.5) to (4, 0.9); 0.7 is half-way over log epsilon. 0.2 is below all points."""
    needed = epsilon_needed(POINTS, accuracy)
    assert needed is not None
    assert needed.epsilon == pytest.approx(epsilon)
    assert needed.at_most == (accuracy == 0.2)
    assert str(epsilon_needed([(1.0, 0.5), (2.0, 0.6)], 0.501)) == "1.01", "it is rounded up"


def test_without_rows_there_is_nothing() -> None:
    assert prices(frontier(), [published(0.5, dataset="elsewhere")]) == []
    assert price_sheet([control(0.5)], [published(0.5)]) is None
    rows = [each for each in frontier() if each.method != "veil_labels"]
    assert (split_cases(rows), split_sheet(rows)) == ([], None)
    assert (frontier_panels([control(0.5)], [POINT]), frontier_overview([control(0.5)], [POINT])) == ([], None)


def test_an_accuracy_that_is_never_reached_has_no_price() -> None:
    assert epsilon_needed(POINTS, 0.91) is None
    assert epsilon_needed([], 0.1) is None
    price = Price(published=published(0.91), veil=None, control=None)
    assert price.ratio == price.measured_ratio == price.control_ratio == math.inf


def test_the_papers_accuracies_cost_what_they_spend() -> None:
    found = published_accuracies()
    assert len(found) == 48
    assert {each.dataset for each in found} == set(DATASETS)
    assert sorted({round(each.epsilon, 9) for each in found}) == [1.5, 2.0, 3.0, 4.0, 10.5, 11.0, 12.0, 13.0]
    assert all(0 < each.mean < 1 for each in found)


def test_ratio_is_to_the_true_epsilon() -> None:
    """Veil reaches 0.5 at a total of 1, and the control a fifth of the way from 1 to 2."""
    [price] = prices(frontier(), [published(0.5)])
    assert price.published.epsilon == 4.0
    assert price.ratio == pytest.approx(0.25)
    assert price.control_ratio == pytest.approx(2**0.2 / 4)
    assert price.measured_ratio == pytest.approx(0.25)


def test_prices_in_words_count_half_and_the_median() -> None:
    found = prices(frontier(), [published(0.5), published(0.7), published(0.99)])
    words = prices_in_words(found)
    assert words.startswith(
        "Veil with the label alone reaches 2 of 3 published accuracies, 1 at no more than half of the paper's ε, "
        "median ratio 1.00."
    )
    assert "median ratio not reached" in prices_in_words(prices(frontier(), [published(0.99)]))


def test_price_sheet_holds_every_number() -> None:
    sheet = price_sheet(frontier(), [published(0.2), published(0.5), published(0.99)])
    assert sheet is not None
    bound, reached, missed = sheet.table.rows
    assert bound[5:8] == ("≤ 0.25", "≤ 0.062", "0.25")
    assert reached[4:8] == ("4", "1.00", "0.250", "1")
    assert missed[5:9] == ("not reached", "–", "–", "not reached")
    assert "any two records" in sheet.table.note
    parsed = list(csv.DictReader(io.StringIO(records_csv(sheet.records))))
    assert float(parsed[1]["ratio"]) == pytest.approx(0.25)
    assert parsed[0]["veil_epsilon_is_a_bound"] == "yes"
    assert parsed[2]["ratio"] == parsed[2]["veil_epsilon"] == ""


def test_curves_have_the_totals_that_were_asked_for() -> None:
    assert [total for total, _ in curve(frontier(), "cora", "veil_labels")] == list(FRONTIER_TOTALS)
    assert curve(frontier(), "cora", "non_private") == []
    assert [total for total, _ in divided_curve(frontier(), "cora")] == [1.0, 2.0, 4.0, 8.0, 13.0, 16.0]


@pytest.mark.parametrize(("lead", "best", "regret"), [(-0.05, 1.0, 0.0), (0.1, 0.5, 0.05)])
def test_regret_is_what_the_label_alone_loses_to_the_best_split(lead: float, best: float, regret: float) -> None:
    cases = split_cases(frontier(step=0.05, divided_lead=lead))
    assert len(cases) == 30
    assert {case.best_share for case in cases} == {best}
    assert [case.regret for case in cases] == pytest.approx([regret] * 30)
    close = 30 if regret == 0 else 0
    assert f"in {close} of 30 cases; its largest regret is {100 * regret:.1f} points" in splits_in_words(cases)


def test_split_sheet_shows_every_share() -> None:
    sheet = split_sheet(frontier())
    assert sheet is not None
    assert sheet.table.columns[2:5] == ("Label alone", "Label 75 %", "Label 50 %")
    assert len(sheet.table.rows) == 30
    assert sheet.table.rows[0][-2:] == ("label alone", "0.0")
    assert sheet.records[0]["label_share_0.5"] == pytest.approx(0.5 - 0.025)


def test_a_ceiling_that_is_passed_is_named() -> None:
    rows = [row(0.85, method="veil_labels", epsilon_x=None, epsilon_y=2.0, epsilon_user_level=2.0), ceiling(0.8)]
    assert "above it on 1 of 1 graphs (Citeseer from 2)" in ceiling_in_words(rows)
    assert ceiling_in_words([rows[0], ceiling(0.9)]) == ""
    assert ceiling_in_words([flat(0.5)]) == ""


# Figures.

POINT = PublishedAccuracy(dataset="cora", epsilon_x=0.1, epsilon_y=3.0, mean=0.77, std=0.015)


def test_a_panel_for_each_graph_and_one_picture_of_all() -> None:
    panels = frontier_panels(frontier(), [POINT])
    assert [panel.name for panel in panels] == [f"frontier-{dataset}" for dataset in DATASETS]
    overview = frontier_overview(frontier(), [POINT])
    assert overview is not None
    assert overview.name == "frontier"
    assert all(name in overview.svg for name in ("Citeseer", "Student", "any two records"))


def test_published_points_stand_at_their_true_epsilon_on_their_graph() -> None:
    panels = {panel.title: panel.svg for panel in frontier_panels(frontier(), [POINT])}
    assert "RGNN, published: 4: 77.0" in panels["Cora"]
    assert "published" not in panels["DBLP"]
    assert "Not private: 80.0." in panels["DBLP"]
