"""The study of the deployed path measures what the commands do, and reads true labels at the ends alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from studies import deployed
from tests.support.public_data import real_folder
from veilgraph.datasets import csbm
from veilgraph.datasets.archive import Archive
from veilgraph.deploy import Model
from veilgraph.evaluation import accuracy
from veilgraph.models import Veil
from veilgraph.privacy.mechanisms import SubsetSelection

NOTHING = np.empty(0, dtype=np.int64)


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """Return a folder with one graph in the format of the public graphs."""
    private = csbm(150, num_classes=3, num_features=2, seed=0)
    archive = Archive.from_parts(
        name="small", edges=private.graph.edges, labels=private.labels, ones=np.stack([NOTHING, NOTHING]), width=1
    )
    archive.write(tmp_path / "small.npz")
    return tmp_path


def labels_in(folder: Path) -> dict[str, object]:
    """Return the reported label of each node; the id of the campaign, which is random, is left out."""
    lines = (folder / "veil" / "reports.jsonl").read_text(encoding="utf-8").splitlines()
    return {report["node"]: report["label"] for report in map(json.loads, lines)}


def test_both_methods_learn_from_one_store_and_predict_those_who_did_not_report(datasets: Path, tmp_path: Path) -> None:
    private = deployed.read_labels(datasets / "small.npz")
    assert private.schema.num_features == 0
    results = deployed.draw(private, 4.0, 0, tmp_path / "draw")
    majority = np.bincount(private.labels).max() / len(private.labels)
    assert all(result["accuracy"] > majority for result in results.values())
    training = json.loads((tmp_path / "draw" / "veil" / "training.json").read_text(encoding="utf-8"))
    assert training["guarantee"]["relations"]["user_level"] == "any two records"
    assert training["label_reports"] == 112  # three quarters of 150, rounded down
    # The same draw again gives the same result; another seed draws other reports.
    again = deployed.draw(private, 4.0, 0, tmp_path / "again")
    assert again["veil"]["accuracy"] == results["veil"]["accuracy"]
    deployed.draw(private, 4.0, 1, tmp_path / "other")
    first, second, other = (labels_in(tmp_path / folder) for folder in ("draw", "again", "other"))
    assert first == second != other


def test_the_table_has_a_spread_and_the_control() -> None:
    def made(veil: float, control: float) -> dict[str, dict[str, float]]:
        times = {"seconds": 1.0, "cpu_seconds": 1.0}
        return {"veil": {"accuracy": veil} | times, "structure_only": {"accuracy": control} | times}

    row = deployed.summary("small", 1.0, [0, 1], [made(0.8, 0.7), made(0.9, 0.7)])
    assert row["veil"]["mean"] == pytest.approx(0.85)
    assert row["veil"]["standard_error"] == pytest.approx(0.05)
    assert deployed.table([row]).splitlines()[-1] == "| small | 1 | 85.0 ± 5.0 | 70.0 ± 0.0 | +15.0 ± 5.0 | 2 |"


def test_a_public_graph_is_predicted_as_veil_does_in_memory(tmp_path: Path) -> None:
    """Cora at a total epsilon of 0.5 (user level, any two records): reports name three of seven classes."""
    private = deployed.read_labels(real_folder() / "cora.npz")
    split = deployed.collect(private, 0.5, 0, tmp_path)
    result = deployed.deploy(private, split, "veil", tmp_path)
    model = Model.load(tmp_path / "veil", device="cpu")
    assert isinstance(model.campaign.label_mechanism, SubsetSelection)
    in_memory = Veil(device="cpu").fit(model.perturbed(private.graph), split)
    np.testing.assert_array_equal(model.method.predict_proba(), in_memory.predict_proba())
    assert result["accuracy"] == accuracy(in_memory.predict(), private, split.test)
    assert result["accuracy"] > 0.5  # 63.6 % on average, standard deviation 5; the seed is fixed
