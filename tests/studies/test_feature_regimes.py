"""The study of features: regimes are what their names say, and the summary is paired."""

from __future__ import annotations

import json

import numpy as np
import pytest
from studies.feature_regimes import SETTINGS, TOTALS, fit, main, summary, table

DECISIVE = next(each for each in SETTINGS if each.regime == "decisive" and each.name.startswith("csbm, 2 classes"))
FITS = [
    {
        "control": 0.5,
        "label_alone": 0.5 + shift,
        "label_at_its_share": 0.5,
        "with_features": 0.7 + shift,
        "clean_features": 0.9,
        "gate_open": 1.0,
    }
    for shift in (0.0, 0.1)
]


def test_settings_cover_all_regimes() -> None:
    assert {each.regime for each in SETTINGS} == {"useless", "useful", "decisive", "as they are"}


def test_gains_are_paired() -> None:
    row = summary(DECISIVE, 6.0, FITS)
    # Both accuracies vary by 0.1, their difference does not.
    assert row["gain_at_equal_total"] == pytest.approx([0.2, 0.0])
    assert row["label_alone"] == pytest.approx([0.55, 0.05])
    assert (row["epsilon_y"], row["epsilon_features"]) == pytest.approx((2.0, 4.0))
    assert "| +20.0 ± 0.0 |" in table([row])
    assert "| 2 of 2 |" in table([row])


def test_edges_of_the_decisive_block_model_say_nothing() -> None:
    private = DECISIVE.records(0, None)
    # With E edges the homophily of independent labels has a standard error of sqrt(1/4 / E).
    assert abs(private.homophily - 0.5) < 5 * np.sqrt(0.25 / private.graph.num_edges)


def test_one_draw_of_the_decisive_regime_gains_by_features() -> None:
    found = fit(DECISIVE, TOTALS[-1], 0, None)
    assert found["gate_open"] == 1.0
    # 500 test nodes: the difference of two accuracies has a standard error of at most sqrt(1/500) = 0.045.
    assert found["with_features"] > found["label_alone"] + 2 * 0.045
    assert found["clean_features"] > found["with_features"]


@pytest.mark.slow
def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["feature_regimes", "--draws", "1", "--jobs", "1", "--data-dir", "nowhere", "--json"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.delenv("VEILGRAPH_DATA", raising=False)
    main()
    rows = json.loads(capsys.readouterr().out)
    assert {row["regime"] for row in rows} == {"useless", "useful", "decisive"}
