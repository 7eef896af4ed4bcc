"""Rows of a table: means and spreads over seeds, beside the published figure that belongs there.

Finished cells are on disk whole or not at all, and a damaged one is named.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from veilgraph.errors import RunError
from veilgraph.experiments.cells import DatasetLoader, key_of
from veilgraph.experiments.grid import Cell, Experiment
from veilgraph.experiments.results import Results, ResultStore, Row, read_rows
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure

ROW = Row(
    dataset="csbm",
    method="rgnn",
    epsilon_x=1.0,
    epsilon_y=2.0,
    variant="",
    swept={},
    accuracies={0: 0.5, 1: 0.6, 2: 0.7},
    seconds=1.5,
    epsilon_user_level=12.0,
    theorem_1=10.3,
    published_mean=0.58,
    published_std=0.05,
)
CELL = Cell(dataset="csbm", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)
PUBLISHED = {
    "dataset": "csbm",
    "method": "rgnn",
    "epsilon_x": 1,
    "epsilon_y": 2,
    "variant": "without LLP",
    "mean": 58.0,
    "std": 5.0,
}
OTHER = {
    "dataset": "patients",
    "method": "lpgnn",
    "epsilon_x": 0.1,
    "epsilon_y": 0.5,
    "variant": "without f_X",
}


def stored(tmp_path: Path, results: list[tuple[Cell, float]]) -> ResultStore:
    """Return a store where these cells have these accuracies, and as many seconds as their seed."""
    store = ResultStore(tmp_path)
    for cell, accuracy in results:
        facts = {"accuracy": accuracy, "seconds": float(cell.seed), "epsilon_user_level": 12.0, "cell": asdict(cell)}
        store.put(key_of(cell, DatasetLoader()), facts)
    return store


def experiment_of(*cells: Cell, published: tuple[dict[str, Any], ...] = ()) -> Experiment:
    return Experiment(name="by hand", title="By hand", cells=cells, published=published)


def test_mean_and_spread_are_those_worked_out_by_hand_and_one_seed_has_no_spread() -> None:
    assert ROW.mean == pytest.approx(0.6)
    assert ROW.std == pytest.approx(0.1)  # sqrt((0.01 + 0 + 0.01) / 2)
    alone = replace(ROW, accuracies={3: 0.5})
    assert alone.mean == 0.5
    assert alone.std is None
    assert alone.within_noise is None


def test_noise_is_two_standard_errors_of_the_difference() -> None:
    # Ours 0.1 over 3 seeds, theirs 0.05 over 5: sqrt(0.01 / 3 + 0.0025 / 5) = 0.0619, so 0.1238 from 0.6.
    error = math.sqrt(0.01 / 3 + 0.0025 / 5)
    assert 2 * error == pytest.approx(0.12383, abs=1e-5)
    for published, expected in ((0.58, True), (0.6 + 0.1238, True), (0.6 + 0.1239, False), (0.6 - 0.1239, False)):
        assert replace(ROW, published_mean=published).within_noise is expected


def test_a_row_in_json_has_every_figure_under_its_name() -> None:
    row = replace(ROW, swept={"label_hops": 4}).as_dict()
    assert json.loads(json.dumps(row)) == row
    assert row == {
        "dataset": "csbm",
        "epsilon_x": 1.0,
        "epsilon_y": 2.0,
        "method": "rgnn",
        "variant": "",
        "label_mechanism": "grr",
        "label_hops": 4,
        "accuracy_mean": pytest.approx(0.6),
        "accuracy_std": pytest.approx(0.1),
        "seeds": 3,
        "epsilon_user_level": 12.0,
        "theorem_1": 10.3,
        "published_mean": 0.58,
        "published_std": 0.05,
        "seconds": 1.5,
        "parameters": {},
    }


def test_a_frame_has_mean_spread_epsilon_and_relation_in_columns() -> None:
    frame = Results([ROW, replace(ROW, method="veil")]).to_frame()
    assert frame["accuracy_mean"].tolist() == [ROW.mean, ROW.mean]
    assert frame["accuracy_std"].tolist() == [ROW.std, ROW.std]
    assert frame["method"].tolist() == [ROW.method, "veil"]
    assert set(frame["epsilon_relation"]) == {"user level (any two records)"}
    assert frame["epsilon_user_level"].tolist() == [ROW.epsilon_user_level] * 2


def test_a_notebook_shows_settings_with_spread_published_figures_and_as_many_as_fit_a_screen() -> None:
    plain = replace(ROW, published_mean=None, published_std=None, epsilon_user_level="not private")
    html = Results([plain])._repr_html_().replace("\N{NO-BREAK SPACE}", " ")
    assert html.count("<th") == 5
    assert "60.0 % ± 10.0" in html
    assert "not private" in html
    swept = replace(ROW, swept={"label_hops": 4}, variant="<b>", label_mechanism="best")
    html = Results([swept] * 30)._repr_html_().replace("\N{NO-BREAK SPACE}", " ")
    assert html.count("&lt;b&gt;; label_hops = 4; labels by the best mechanism") == 24
    assert html.count("58.0 % ± 5.0") == 24
    assert "6 more settings: to_frame() has all of them." in html


def test_seeds_of_one_setting_become_one_row(tmp_path: Path) -> None:
    cells = [replace(CELL, seed=seed) for seed in range(4)]
    store = stored(tmp_path, list(zip(cells[:3], (0.5, 0.6, 0.7), strict=True)))
    [row] = read_rows(experiment_of(*cells), store)
    assert row.accuracies == {0: 0.5, 1: 0.6, 2: 0.7}  # the fourth is not finished
    assert row.seconds == pytest.approx((0 + 1 + 2) / 3)
    assert row.epsilon_user_level == 12.0
    assert row.published_mean is None
    assert row.within_noise is None


def test_settings_that_differ_in_anything_are_rows_of_their_own(tmp_path: Path) -> None:
    cells = [
        CELL,
        replace(CELL, method="lpgnn"),
        replace(CELL, epsilon_x=0.1),
        replace(CELL, epsilon_y=0.5),
        replace(CELL, variant="without LLP"),
        replace(CELL, parameters={"label_hops": 2}),
        replace(CELL, parameters={"label_hops": 4}),
    ]
    rows = read_rows(experiment_of(*cells), stored(tmp_path, [(cell, i / 10) for i, cell in enumerate(cells)]))
    assert [row.mean for row in rows] == [i / 10 for i in range(len(cells))]
    assert [row.swept for row in rows[-2:]] == [{"label_hops": 2}, {"label_hops": 4}]


def test_a_published_figure_belongs_to_the_setting_that_it_names(tmp_path: Path) -> None:
    cell = replace(CELL, variant="without LLP")
    [row] = read_rows(experiment_of(cell, published=(PUBLISHED,)), stored(tmp_path, [(cell, 0.5)]))
    assert row.published_mean == pytest.approx(0.58)
    assert row.published_std == pytest.approx(0.05)


def test_a_published_figure_of_another_setting_is_not_taken(tmp_path: Path) -> None:
    cell = replace(CELL, variant="without LLP")
    for key, value in OTHER.items():
        experiment = experiment_of(cell, published=({**PUBLISHED, key: value},))
        [row] = read_rows(experiment, stored(tmp_path / key, [(cell, 0.5)]))
        assert (row.published_mean, row.within_noise) == (None, None), key


def test_a_figure_without_budgets_belongs_to_the_ceiling_only(tmp_path: Path) -> None:
    ceiling = replace(CELL, method="non_private", epsilon_x=None, epsilon_y=None)
    figure = {"dataset": "csbm", "method": "non_private", "mean": 87.5, "std": 0.9}
    experiment = experiment_of(CELL, ceiling, published=(figure,))
    rows = read_rows(experiment, stored(tmp_path, [(CELL, 0.5), (ceiling, 0.9)]))
    assert [row.published_mean for row in rows] == [None, pytest.approx(0.875)]


def test_theorem_1_stands_beside_grr_fs_reports_only(tmp_path: Path) -> None:
    cells = [
        CELL,
        replace(CELL, method="lpgnn"),  # multi-bit: its authors claim no amplification
        replace(CELL, method="structure_only", epsilon_x=None),
        replace(CELL, method="non_private", epsilon_x=None, epsilon_y=None),
    ]
    rows = read_rows(experiment_of(*cells), stored(tmp_path, [(cell, 0.5) for cell in cells]))
    figure = theorem_1_figure(1.0, sampled=10, num_features=32) + 2.0  # the embedded block model has 32 features
    assert [row.theorem_1 for row in rows] == [pytest.approx(figure), None, None, None]


def test_an_experiment_of_which_nothing_is_finished_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nothing of by hand is finished: veilgraph lab paper by hand"):
        read_rows(experiment_of(CELL), ResultStore(tmp_path))


KEY, OTHER_KEY = "ab" + "0" * 62, "ab" + "1" * 62
RESULT = {"accuracy": 0.5, "epsilon_user_level": "not private", "cell": {"seed": 0, "parameters": {"epochs": 2}}}


def test_what_was_put_is_what_is_got(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "new")
    assert (store.get(KEY), store.has(KEY), (tmp_path / "new").exists()) == (None, False, False)
    store.put(KEY, RESULT)
    assert (store.get(KEY), store.has(KEY), store.get(OTHER_KEY)) == (RESULT, True, None)
    assert ResultStore(tmp_path / "new").get(KEY) == RESULT
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (path.name, json.loads(path.read_text(encoding="utf-8"))) == (f"{KEY}.json", RESULT)


@pytest.mark.parametrize("content", [b"", b'{"accuracy": 0.', b"\xff\xfe\x00"])
def test_a_damaged_cell_is_refused_by_name_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, RESULT)
    next(tmp_path.rglob("*.json")).write_bytes(content)
    with pytest.raises(RunError, match=rf"{KEY}\.json cannot be read .*: delete it and run again"):
        store.get(KEY)


def test_a_crash_while_writing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, RESULT)

    def crash(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    for key in (KEY, OTHER_KEY):
        with pytest.raises(KeyboardInterrupt):
            store.put(key, {**RESULT, "accuracy": 0.9})
    assert store.get(KEY) == RESULT
    assert not store.has(OTHER_KEY)


def test_a_full_disk_is_one_sentence_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunError, match=r"\.json cannot be written: No space left on device; free space"):
        ResultStore(tmp_path).put(KEY, RESULT)
