"""The study of rivals that read public attributes: a cell, what stands beside it, and what the networks read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from studies.public_rivals import METHODS, RIVALS, compare, summary, table
from studies.rivals.boosted_trees import neighbourhoods

from studies.rivals import BoostedTrees, CorrectAndSmooth, PublicGNN, PublicRTGNN
from tests.models.test_conformance import PERTURBED, SPLIT
from tests.studies.test_public_attributes import PEOPLE
from veilgraph.errors import FitError
from veilgraph.graph import PublicAttributes
from veilgraph.reconstruct.operators import operators_of

CPU = torch.device("cpu")
KNOWN = replace(
    PERTURBED,
    public=PublicAttributes.from_matrix(
        np.random.default_rng(0).normal(size=(PERTURBED.graph.num_nodes, 3)).astype(np.float32)
    ),
)


@pytest.mark.parametrize("kind", [PublicGNN, PublicRTGNN])
def test_networks_read_attributes_alone(kind: type[PublicGNN]) -> None:
    method, operators = kind(components=8, epochs=2, device="cpu"), operators_of(KNOWN.graph, CPU)
    inputs = method.network_inputs(KNOWN, operators)
    # three columns have three components; the others are 0, and the first one has the scale 1
    assert inputs.shape == (KNOWN.graph.num_nodes, 8)
    assert (inputs[:, 3:] == 0).all()
    assert inputs[:, 0].square().mean() == pytest.approx(1, rel=1e-4)
    assert method.fit(KNOWN, SPLIT).predict_proba().sum(1) == pytest.approx(1, abs=1e-5)
    with pytest.raises(FitError, match="no public attributes"):
        method.network_inputs(PERTURBED, operators)
    with pytest.raises(FitError, match="components is 0"):
        kind(components=0).check_settings()


@pytest.mark.parametrize("make", [CorrectAndSmooth, BoostedTrees])
def test_attributes_that_are_the_class_are_learned(make: type[CorrectAndSmooth | BoostedTrees]) -> None:
    classes = np.arange(KNOWN.graph.num_nodes) % KNOWN.schema.num_classes
    told = replace(KNOWN, public=PublicAttributes.from_codes(classes[:, None], [KNOWN.schema.num_classes]))
    clean = replace(told, labels=classes.astype(told.labels.dtype), label_mechanism=told.label_mechanism)
    predicted = make(device="cpu").fit(clean, SPLIT).predict()
    assert (predicted == classes).mean() > 0.9


def test_an_estimate_around_a_node_does_not_hold_its_own_report() -> None:
    operators = operators_of(KNOWN.graph, CPU)
    node = int(np.flatnonzero(KNOWN.has_label)[0])
    other = KNOWN.labels.copy()
    other[node] = (other[node] + 1) % KNOWN.schema.num_classes
    own, everyone = neighbourhoods(KNOWN, operators, seed=0)
    own_after, everyone_after = neighbourhoods(replace(KNOWN, labels=other), operators, seed=0)
    assert (own[node] == own_after[node]).all()
    assert (everyone[node] != everyone_after[node]).any()


@pytest.mark.slow
def test_a_cell_scores_every_method(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "kfamily_people.csv").write_text(PEOPLE.replace("asked_before", "cfp"))
    edges = "".join(f"u{i},u{(i + 1) % 120}\n" for i in range(120))
    (tmp_path / "people" / "kfamily_edges.csv").write_text("from,to\n" + edges)
    cell = compare((tmp_path, "kfamily-adopted", 4.0, 0))
    assert all(0 <= cell[method] <= 1 for method in METHODS)


def test_the_difference_is_to_the_best_rival_and_paired() -> None:
    cells = [
        dict.fromkeys(METHODS, 0.2) | dict.fromkeys(RIVALS, share - 0.2) | {"gat": share - 0.1, "veil": share}
        for share in (0.5, 0.7)
    ]
    row = summary([cell | {"dataset": "small", "epsilon_user_level": 1.0} for cell in cells])
    assert row["best"] == "gat"
    assert row["difference"] == {"mean": pytest.approx(10), "standard_error": pytest.approx(0, abs=1e-9)}
    assert "| small | 1 | 2 | 60.0 ± 10.0 |" in table([row])
