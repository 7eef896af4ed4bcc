"""Experiments are data: what they say is what is run, and what they do not say is refused."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilgraph
from veilgraph.datasets.catalogue import known_datasets
from veilgraph.errors import BudgetError, RunError
from veilgraph.experiments.grid import (
    Cell,
    experiment_names,
    load_experiment,
    load_hyperparameters,
    make_cell,
    parse_experiment,
)
from veilgraph.experiments.tune import FIRST_SEED, SEARCH_SPACE
from veilgraph.models.registry import METHODS

PUBLISHED_TABLE = Path(__file__).parents[2].parent / "shared" / "paper" / "table2.csv"
PUBLISHED_NAMES = {"GraphSAGE": "graphsage", "LPGNN": "lpgnn", "RGNN": "rgnn"}
SIX = ("citeseer", "cora", "dblp", "facebook", "german", "student")

SMALL = """
title = "By hand"
sampled = 3
seeds = 2
epochs = 7

[[variant]]
name = "without LLP"
use_proportions = false

[[grid]]
datasets = ["csbm", "patients"]
methods = ["rgnn", "structure_only", "non_private"]
epsilon_x = [1, 0.1]
epsilon_y = [2, 1]
"""
TUNED = {"csbm": {"2": {"dropout": 0.25, "label_hops": 4}, "1": {"dropout": 0.75, "label_hops": 16}}}


@pytest.mark.parametrize("name", experiment_names())
def test_every_shipped_experiment_is_complete(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.cells
    seeds = {cell.seed for cell in experiment.cells}
    assert seeds == set(range(5))
    assert max(cell.seed for cell in experiment.cells) < FIRST_SEED  # no draw that the search has seen
    assert {cell.dataset for cell in experiment.cells} <= set(known_datasets())
    assert all(set(cell.parameters) <= METHODS[cell.method].parameters for cell in experiment.cells)


@pytest.mark.parametrize("name", experiment_names())
def test_every_published_figure_stands_beside_a_cell(name: str) -> None:
    experiment = load_experiment(name, seeds=1)
    cells = {(c.dataset, c.method, c.epsilon_x, c.epsilon_y, c.variant) for c in experiment.cells}
    published = [
        (row["dataset"], row["method"], row.get("epsilon_x"), row.get("epsilon_y"), row.get("variant", ""))
        for row in experiment.published
    ]
    assert set(published) <= cells
    assert len(set(published)) == len(published)
    assert all(0 < row["mean"] < 100 and 0 <= row["std"] < 50 for row in experiment.published)


@pytest.mark.parametrize("name", sorted(set(experiment_names()) - {"table1"}))
def test_every_private_cell_has_the_structure_only_control_beside_it(name: str) -> None:
    cells = load_experiment(name).cells
    controls = {(c.dataset, c.epsilon_y, c.seed) for c in cells if c.method == "structure_only"}
    assert {(c.dataset, c.epsilon_y, c.seed) for c in cells if METHODS[c.method].private} == controls


def test_table_2_has_the_settings_of_the_paper() -> None:
    cells = [cell for cell in load_experiment("table2").cells if cell.method == "rgnn"]
    settings = {(cell.dataset, cell.epsilon_x, cell.epsilon_y) for cell in cells}
    assert settings == set(itertools.product(SIX, (1.0, 0.1, 0.01), (3.0, 2.0, 1.0, 0.5)))
    assert len(cells) == 5 * len(settings) == 5 * 72
    assert {cell.sampled for cell in cells} == {10}
    counts = Counter(cell.method for cell in load_experiment("table2", seeds=1).cells)
    full = dict.fromkeys(("rgnn", "graphsage", "lpgnn", "lpgnn_equal"), 6 * 3 * 4)
    without_features = dict.fromkeys(("structure_only", "majority"), 6 * 4)  # once over epsilon_x
    assert counts == {**full, **without_features, "non_private": 6}  # once over all budgets


def test_the_published_figures_are_those_of_the_paper() -> None:
    if not PUBLISHED_TABLE.is_file():
        pytest.skip("needs the paper's table as a file beside the repository")
    with PUBLISHED_TABLE.open(newline="", encoding="utf-8") as file:
        expected = {
            (
                row["dataset"],
                float(row["epsilon_x"]),
                float(row["epsilon_y"]),
                PUBLISHED_NAMES[row["method"]],
                float(row["accuracy_mean"]),
                float(row["accuracy_std"]),
            )
            for row in csv.DictReader(file)
        }
    found = {
        (row["dataset"], float(row["epsilon_x"]), float(row["epsilon_y"]), row["method"], row["mean"], row["std"])
        for row in load_experiment("table2", seeds=1).published
    }
    assert found == expected


def test_hyper_parameters_are_of_the_search_and_for_known_data_and_budgets() -> None:
    found = load_hyperparameters()
    assert set(found) <= set(known_datasets())
    for budgets in found.values():
        assert set(budgets) <= {"3", "2", "1", "0.5"}
        for parameters in budgets.values():
            assert set(parameters) == set(SEARCH_SPACE)
            assert all(value in SEARCH_SPACE[key] for key, value in parameters.items())
    searched = {(name, budget) for name in found for budget in found[name]}
    cells = load_experiment("table2", seeds=1).cells
    assert searched >= {(cell.dataset, f"{cell.epsilon_y:g}") for cell in cells if cell.method == "rgnn"}


def test_a_cell_takes_epochs_from_the_experiment_and_the_rest_from_the_search() -> None:
    experiment = parse_experiment("small", SMALL, TUNED)
    for cell in experiment.cells:
        if cell.method == "rgnn" and cell.dataset == "csbm":
            assert cell.epsilon_y is not None
            assert cell.parameters == {"epochs": 7, **TUNED["csbm"][f"{cell.epsilon_y:g}"]}
        elif cell.method == "rgnn":
            assert cell.parameters == {"epochs": 7}
        else:
            # The control takes no parameters; the ceiling none that were found under randomization.
            assert cell.parameters == ({} if cell.method == "structure_only" else {"epochs": 7})


def test_a_grid_overrides_a_variant_and_a_variant_the_search() -> None:
    text = """
    [[variant]]
    name = "v"
    dropout = 0.125
    label_hops = 1
    [[grid]]
    datasets = ["csbm"]
    methods = ["rgnn"]
    epsilon_x = [1]
    epsilon_y = [2]
    label_hops = [0, 2]
    variants = ["", "v"]
    """
    cells = parse_experiment("overrides", text, TUNED, seeds=1).cells
    found = {(cell.variant, cell.parameters["dropout"], cell.parameters["label_hops"]) for cell in cells}
    assert found == {("", 0.25, 0), ("", 0.25, 2), ("v", 0.125, 0), ("v", 0.125, 2)}


def test_equal_cells_are_run_once_and_cells_of_one_draw_together() -> None:
    once = parse_experiment("once", SMALL, TUNED)
    twice = parse_experiment("twice", SMALL + SMALL[SMALL.index("[[grid]]") :], TUNED)
    assert once.cells == twice.cells
    groups = [
        key for key, _ in itertools.groupby(parse_experiment("s", SMALL, {}).cells, lambda c: (c.dataset, c.seed))
    ]
    assert groups == sorted(set(groups))


def test_seeds_can_be_chosen_and_start_where_the_experiment_says() -> None:
    by_default = parse_experiment("small", SMALL, {})
    more, fewer = (parse_experiment("small", SMALL, {}, seeds=seeds) for seeds in (3, 1))
    assert {cell.seed for cell in by_default.cells} == {0, 1}
    assert {cell.seed for cell in more.cells} == {0, 1, 2}
    assert set(map(repr, fewer.cells)) < set(map(repr, by_default.cells)) < set(map(repr, more.cells))
    grid = 'datasets = ["cora"]\nmethods = ["rgnn"]\nepsilon_x = [1]'
    experiment = parse_experiment("mine", f"first_seed = 100\nseeds = 3\n[[grid]]\n{grid}", {})
    assert [cell.seed for cell in experiment.cells] == [100, 101, 102]
    assert [cell.seed for cell in experiment.only(seeds=2).cells] == [100, 101]


GRID = '[[grid]]\ndatasets = ["csbm"]\nmethods = ["rgnn"]\nepsilon_x = [1]\n'
PUBLISHED = '[[published]]\ndataset = "csbm"\nmethod = "rgnn"\nmean = 50.0\nstd = 1.0\n'
TYPOS = {
    "experiment": ("seed = 3\n" + GRID, "typo: unknown key 'seed'"),
    "grid": (GRID + "epsilonx = [1]\n", "typo, grid: unknown key 'epsilonx'"),
    "swept": (GRID + "llp_wieght = [1]\n", "typo, grid: unknown key 'llp_wieght'"),
    "published": (GRID + PUBLISHED + "sd = 1.0\n", "typo, published: unknown key 'sd'"),
    "variant": (GRID + '[[variant]]\nname = "v"\nuse_proportion = false\n', "typo, variant: unknown key 'use_prop"),
    "no name": (GRID + "[[variant]]\nuse_proportions = false\n", "typo, variant: 'name' is missing"),
    "no mean": (GRID + PUBLISHED.replace("mean = 50.0\n", ""), "typo, published: 'mean' is missing"),
    "no methods": ('[[grid]]\ndatasets = ["csbm"]\n', "typo, grid: 'methods' is missing"),
    "method": (GRID.replace("rgnn", "rgn"), "no method 'rgn': known are rgnn, "),
    "undeclared": (GRID + 'variants = ["without LPP"]\n', "variant 'without LPP' is not declared"),
    "columns": ('columns = "orignal"\n' + GRID, "columns is 'orignal'"),
    "no seeds": ("seeds = 0\n" + GRID, "seeds is 0"),
    "neighbours": (GRID + 'neighbours = ["histogramm"]\n', "neighbours has 'histogramm'; .* did you mean histogram"),
    "no edge budget": (GRID + 'neighbours = ["class"]\n', "neighbours has 'class': give edge_epsilon"),
    "reporters": (GRID + "reporters = [0.6]\n", "reporters has 0.6; give 0.75 or 0.5"),
    "not TOML": ("seeds = \n", "experiment 'typo' is not TOML"),
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_typo_is_refused_with_the_key_named(typo: str) -> None:
    parse_experiment("right", GRID + PUBLISHED, {})
    text, expected = TYPOS[typo]
    with pytest.raises(RunError, match=expected):
        parse_experiment("typo", text, {})


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        RunError, match=r"no experiment 'table3': known are ablation, .*, table2; did you mean table2 or table1\?$"
    ):
        load_experiment("table3")
    with pytest.raises(RunError, match="no experiment 'hyperparameters'"):
        load_experiment("hyperparameters")


def test_a_part_is_what_was_asked_for_and_must_exist() -> None:
    experiment = parse_experiment("small", SMALL, {})
    part = experiment.only(datasets=["csbm"], methods=["rgnn", "non_private"], seeds=1)
    assert part.cells == tuple(
        cell
        for cell in experiment.cells
        if cell.dataset == "csbm" and cell.method != "structure_only" and cell.seed == 0
    )
    assert part.published == experiment.published
    assert experiment.only() == experiment
    with pytest.raises(RunError, match="small has no dataset 'cora': it has csbm, patients"):
        experiment.only(datasets=["csbm", "cora"])
    with pytest.raises(RunError, match="small has no method 'lpgnn': it has non_private, rgnn, structure_only"):
        experiment.only(methods=["lpgnn"])


# Few values of each ingredient, so that equal cells are drawn too.
budgets = st.sampled_from([None, 0.1, 1.0])
parameters = st.dictionaries(
    st.sampled_from(["dropout", "learning_rate"]), st.sampled_from([0.25, 0.5]), max_size=2
) | st.just({"backbone": "gcn"})
cells = st.builds(
    Cell,
    dataset=st.sampled_from(["csbm", "patients"]),
    method=st.sampled_from(["rgnn", "lpgnn"]),
    epsilon_x=budgets,
    epsilon_y=budgets,
    sampled=st.integers(1, 2),
    seed=st.integers(0, 1),
    variant=st.sampled_from(["", "without LLP"]),
    original_columns=st.booleans(),
    label_mechanism=st.sampled_from(["grr", "best"]),
    neighbours=st.sampled_from(["public", "class"]),
    edge_epsilon=st.sampled_from([None, 2.0]),
    reporters=st.sampled_from([0.75, 0.5]),
    parameters=parameters,
)


@given(cells, cells, st.sampled_from(["a", "b"]), st.sampled_from(["a", "b"]))
def test_keys_are_equal_exactly_where_everything_that_decides_is(
    one: Cell, other: Cell, data: str, other_data: str
) -> None:
    assert (one.key(data) == other.key(other_data)) == (one == other and data == other_data)


def test_a_change_of_any_ingredient_changes_the_key() -> None:
    changes = {"dataset": "patients", "method": "lpgnn", "epsilon_x": 0.1, "epsilon_y": 0.5, "sampled": 4, "seed": 1}
    changes |= {"variant": "without LLP", "original_columns": True, "label_mechanism": "best", "neighbours": "list"}
    changes |= {"edge_epsilon": 4.0, "reporters": 0.5}
    given: dict[str, Any] = {"dataset": "csbm", "method": "rgnn", "epsilon_x": 1.0, "epsilon_y": 1.0, "sampled": 3}
    cell = Cell(**given, seed=0, parameters={"epochs": 7})
    changed = [replace(cell, **{name: value}) for name, value in changes.items()]  # type: ignore[arg-type]
    changed += [replace(cell, parameters=each) for each in ({"epochs": 8}, {"epochs": 7, "dropout": 0.5})]
    assert len({each.key("data") for each in (cell, *changed)}) == len(changed) + 1
    assert replace(cell).key("data") == cell.key("data")


def test_a_method_without_privacy_has_no_label_mechanism_to_choose() -> None:
    def cell(method: str) -> Cell:
        return make_cell(
            dataset="csbm",
            method=method,
            epsilon_x=1.0,
            epsilon_y=1.0,
            sampled=1,
            seed=0,
            label_mechanism="best",
            parameters={},
        )

    assert cell("non_private").label_mechanism == "grr"
    assert cell("structure_only").label_mechanism == "best"


def test_other_data_another_version_or_revision_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = parse_experiment("small", SMALL, {}).cells[0]
    key = cell.key("data")
    assert cell.key("other data") != key
    monkeypatch.setattr(veilgraph, "__version__", "0.0.0")
    assert cell.key("data") != key
    cell = parse_experiment("small", SMALL, TUNED).cells[0]
    backwards = replace(cell, parameters=dict(reversed(list(cell.parameters.items()))))
    assert len(cell.parameters) > 1
    assert backwards.key("data") == cell.key("data")


def test_another_revision_of_the_method_changes_its_keys_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = parse_experiment("small", SMALL, {}).cells[0]
    other = replace(cell, method="majority")
    assert cell.method != other.method
    keys = cell.key("data"), other.key("data")
    revised = replace(METHODS[cell.method], revision=METHODS[cell.method].revision + 1)
    monkeypatch.setitem(METHODS, cell.method, revised)
    assert (cell.key("data") != keys[0], other.key("data") != keys[1]) == (True, False)


def test_totals_are_divided_between_features_and_label() -> None:
    grid = 'datasets = ["cora"]\nmethods = ["rgnn"]\ntotal_epsilon = [11, 2]\nlabel_share = [0.5]'
    experiment = parse_experiment("mine", f"sampled = 10\nseeds = 1\n[[grid]]\n{grid}", {})
    assert [cell.epsilon_x for cell in experiment.cells] == pytest.approx([0.55, 0.1])
    assert [cell.epsilon_y for cell in experiment.cells] == [5.5, 1.0]
    for mixed in ("epsilon_x = [1]", "epsilon_y = [1]"):
        with pytest.raises(RunError, match="unknown key 'epsilon_"):
            parse_experiment("mine", f"[[grid]]\n{grid}\n{mixed}", {})
    with pytest.raises(RunError, match="'total_epsilon' is missing"):
        parse_experiment("mine", '[[grid]]\ndatasets = ["cora"]\nmethods = ["rgnn"]\nlabel_share = [1]', {})
    text = '[[grid]]\ndatasets = ["cora"]\nmethods = ["veil"]\ntotal_epsilon = [2]\nlabel_share = [1, 0.5]\n'
    cells = parse_experiment("own", text, {}, seeds=1).cells
    assert [(cell.epsilon_x, cell.epsilon_y) for cell in cells] == [(None, 2.0), (0.1, 1.0)]


def test_a_budget_that_was_not_searched_takes_what_the_nearest_one_found() -> None:
    found = {"cora": {"3": {"label_hops": 2}, "0.5": {"label_hops": 16}}}
    grid = 'datasets = ["cora"]\nmethods = ["rgnn"]\nepsilon_x = [1]\nepsilon_y = [16, 3, 1.3, 1.2, 0.1]'
    experiment = parse_experiment("mine", f"seeds = 1\n[[grid]]\n{grid}", found)
    hops = {cell.epsilon_y: cell.parameters["label_hops"] for cell in experiment.cells}
    assert hops == {16: 2, 3: 2, 1.3: 2, 1.2: 16, 0.1: 16}  # 1.2247 is the geometric mean of 3 and 0.5


def test_a_grid_names_its_label_mechanisms_and_has_grr_otherwise() -> None:
    grid = '[[grid]]\ndatasets = ["cora"]\nmethods = ["veil_labels"]\nepsilon_y = [1]\n'
    for line, expected in (
        ("", ["grr"]),
        ('labels = ["best"]', ["best"]),
        ('labels = ["grr", "best"]', ["grr", "best"]),
    ):
        cells = parse_experiment("own", grid + line, {}, seeds=1).cells
        assert [cell.label_mechanism for cell in cells] == expected
    with pytest.raises(RunError, match="labels has 'sets'; known are grr, best"):
        parse_experiment("own", grid + 'labels = ["sets"]', {})


def test_only_cells_that_ask_about_edges_have_an_edge_budget() -> None:
    text = """
        [[grid]]
        datasets = ["csbm"]
        methods = ["neighbour_waves"]
        epsilon_y = [2]
        neighbours = ["public", "alone", "list", "histogram", "class"]
        edge_epsilon = [1, 4]
    """
    found = Counter((cell.neighbours, cell.edge_epsilon) for cell in parse_experiment("edges", text, {}, seeds=1).cells)
    asking = itertools.product(("list", "histogram", "class"), (1.0, 4.0))
    assert found == Counter([("public", None), ("alone", None), *asking])


@pytest.mark.parametrize("epsilon", [0, -1])
def test_an_impossible_edge_budget_is_refused_before_anything_runs(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=f"edge_epsilon is {epsilon}"):
        parse_experiment("edges", GRID + f'neighbours = ["class"]\nedge_epsilon = [{epsilon}]\n', {})


def test_private_neighbours_ask_for_features_only_where_a_grid_says_so() -> None:
    grid = '[[grid]]\ndatasets = ["cora"]\nmethods = ["neighbour_waves"]\nneighbours = ["alone"]\nepsilon_y = [2]\n'
    for asked, expected in (("", [None]), ("epsilon_x = [0, 1]\n", [None, 1.0])):
        cells = parse_experiment("own", grid + asked, {}, seeds=1).cells
        assert [cell.epsilon_x for cell in cells] == expected


def test_settings_of_one_method_replace_those_of_rgnn() -> None:
    text = '[[grid]]\ndatasets = ["cora", "dblp"]\nmethods = ["lpgnn", "rgnn"]\nepsilon_x = [1]\nepsilon_y = [1]\n'
    tuned = {"cora": {"1": {"dropout": 0.1}}, "methods": {"lpgnn": {"dblp": {"1": {"dropout": 0.2}}}}}
    cells = parse_experiment("own", text, tuned, seeds=1).cells
    assert {(cell.method, cell.dataset): cell.parameters.get("dropout") for cell in cells} == {
        ("rgnn", "cora"): 0.1,
        ("rgnn", "dblp"): None,
        ("lpgnn", "cora"): None,
        ("lpgnn", "dblp"): 0.2,
    }


@pytest.mark.parametrize("budget", ["epsilon_y = [2]", "total_epsilon = [2]\nlabel_share = [1]"])
def test_a_method_that_needs_features_is_refused_without_a_budget_for_them(budget: str) -> None:
    text = f'[[grid]]\ndatasets = ["cora"]\nmethods = ["rgnn"]\n{budget}'
    with pytest.raises(RunError, match="rgnn needs features, and no budget is left for them: give epsilon_x"):
        parse_experiment("mine", text, {})
