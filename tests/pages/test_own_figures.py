"""An experiment of one's own has figures: over epsilon, over a parameter that varies, or a bar for each method."""

from __future__ import annotations

from tests.support.result_rows import ceiling, control, row
from veilgraph.pages.own_figures import own_figures
from veilgraph.pages.paired_differences import datasets_of


def test_totals_make_curves_with_levels_without_privacy() -> None:
    rows = [
        each
        for dataset in ("a", "b")
        for epsilon in (1.0, 2.0)
        for each in (
            row(0.5, dataset=dataset, epsilon_y=epsilon, epsilon_user_level=10 + epsilon),
            control(0.4 + epsilon / 10, dataset=dataset, epsilon_y=epsilon, epsilon_user_level=epsilon),
            ceiling(0.9, dataset=dataset),
        )
    ]
    panels = own_figures("mine", rows)
    assert [panel.name for panel in panels] == [f"mine-{dataset}" for dataset in datasets_of(rows)]
    assert "RGNN: 11: 50.0, 12: 50.0; Control: 1: 50.0, 2: 60.0; Non-private: 90.0" in panels[0].label
    assert "total user-level ε (any two records)" in panels[0].svg


def test_a_parameter_that_varies_is_the_axis_and_the_control_is_a_level() -> None:
    hops = [(k, y) for k in (0, 8) for y in (1.0, 2.0)]
    rows = [row(0.5 + k / 100, epsilon_y=y, swept={"feature_hops": k}) for k, y in hops]
    panels = own_figures("mine", [*rows, control(0.4, epsilon_y=1.0), control(0.45, epsilon_y=2.0)])
    assert [panel.name for panel in panels] == ["mine-Citeseer-x1-y1", "mine-Citeseer-x1-y2"]
    assert "RGNN: 0: 50.0, 8: 58.0; Control: 45.0" in panels[1].label


def test_one_budget_is_drawn_as_bars() -> None:
    (panel,) = own_figures("mine", [row(0.5), row(0.3, variant="without f_X"), control(0.4)])
    assert panel.label == "Citeseer. Accuracy in percent. RGNN: 50.0; RGNN without f_X: 30.0; Control: 40.0."
    assert panel.pdf == panel.pdf
    assert panel.svg == own_figures("mine", [row(0.5), row(0.3, variant="without f_X"), control(0.4)])[0].svg
