"""The frontier is drawn as far as there is something to draw, and speaks."""

from __future__ import annotations

from tests.support.result_rows import control, flat, frontier
from veilgraph.pages.frontier import Published
from veilgraph.pages.frontier_figures import frontier_overview, frontier_panels
from veilgraph.pages.paper_claims import DATASETS

POINT = Published(dataset="cora", epsilon_x=0.1, epsilon_y=3.0, mean=0.77, std=0.015)


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


def test_one_curve_of_one_seed_is_drawn() -> None:
    alone = flat(0.5, seeds=1, method="veil_labels", epsilon_x=None, epsilon_y=1.0, epsilon_user_level=1.0)
    [panel] = frontier_panels([alone], [])
    assert "Veil, label alone: 1: 50.0" in panel.svg
    assert "nan" not in panel.svg


def test_nothing_to_draw_is_nothing() -> None:
    assert frontier_panels([control(0.5)], [POINT]) == []
    assert frontier_overview([control(0.5)], [POINT]) is None
