"""A folder of any method is what was saved, or it is refused in one sentence."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from tests.support.damage import (
    DOCUMENT_TEXTS,
    FILE_DAMAGES,
    SEALED,
    bomb,
    changed_arrays,
    lacking,
    packed,
    retyped,
    seal_method,
    unpacked,
)
from veilgraph.datasets import csbm
from veilgraph.errors import FitError, VeilgraphError
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.graph.array_files import comment_of
from veilgraph.models import Method
from veilgraph.models.registry import METHODS
from veilgraph.models.saved_state import conforms
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import grr_fs

PRIVATE = csbm(40, num_classes=3, num_features=4, seed=0)
SPLIT = Split.random(40, seed=0)
SMALL = {"epochs": 2, "feature_hops": 2, "label_hops": 2, "num_clusters": 3, "device": "cpu"}

# Entries that differ in a title or in a mechanism alone are the same class.
NAMES = list({(entry.estimator, str(entry.fixed)): name for name, entry in METHODS.items()}.values())
# One method for each way to restore a state: what its arrays and values must be is decided there.
RESTORED = list({METHODS[name].estimator.restore: name for name in reversed(NAMES)}.values())
# A file is read before anyone asks of which method it is: a method without networks, and one with them.
READ = ["veil_non_private", "rgnn"]


@cache
def fitted(name: str) -> tuple[Method, PerturbedGraph]:
    """Return a method of the registry, fitted to reports of the mechanism that it needs."""
    entry = METHODS[name]
    mechanism, rng = entry.features or grr_fs, np.random.default_rng(0)
    perturbed = simulate(PRIVATE, PrivacyBudget(1.0, 2.0, 2), SPLIT, rng=rng, features=mechanism)
    return entry.make(SMALL).fit(perturbed, SPLIT), perturbed


@cache
def predictions(name: str) -> NDArray[np.float32]:
    method, perturbed = fitted(name)
    return method.predict_proba(perturbed)


def predict(name: str, folder: Path) -> NDArray[np.float32]:
    method, perturbed = fitted(name)
    if folder.name == SEALED:
        seal_method(folder)
    return type(method).load(folder, device="cpu").predict_proba(perturbed)


# The address of an input decides how vector instructions group a sum of at most 64 single-precision terms: two passes
# of the same network can differ in the last bits, 6e-8 of a probability each.
ROUNDING = 1e-6


@pytest.fixture(params=RESTORED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


every_method = pytest.mark.parametrize("name", NAMES)
two_methods = pytest.mark.parametrize("name", READ)


@pytest.fixture(params=["saved", SEALED])
def saved(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the folder of a method, as it was saved, or one whose manifest is written anew after each damage."""
    fitted(name)[0].save(tmp_path / request.param)
    return tmp_path / str(request.param)


def read(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return document


def write(folder: Path, document: object) -> None:
    (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")


def check_refused(name: str, folder: Path, damage: str) -> None:
    """Check that a folder is refused in one sentence, or that its damage does not reach the predictions."""
    found = outcome(name, folder)
    if isinstance(found, VeilgraphError):
        assert len(str(found).splitlines()) == 1, damage
        assert len(str(found)) - len(str(folder)) < 600, damage
    else:
        assert folder.name == SEALED, damage
        np.testing.assert_allclose(found, predictions(name), rtol=0, atol=ROUNDING, err_msg=damage)


def outcome(name: str, folder: Path) -> NDArray[np.float32] | VeilgraphError:
    try:
        return predict(name, folder)
    except VeilgraphError as error:
        return error


@every_method
def test_an_intact_folder_predicts_the_same(name: str, tmp_path: Path) -> None:
    fitted(name)[0].save(tmp_path)
    np.testing.assert_allclose(predict(name, tmp_path), predictions(name), rtol=0, atol=ROUNDING)


@every_method
def test_a_parameter_and_an_array_of_another_type_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / SEALED
    fitted(name)[0].save(folder)
    document, content = read(folder), (folder / "weights.npz").read_bytes()
    for parameter in document["parameters"]:
        write(folder, document | {"parameters": document["parameters"] | {parameter: [["x"]]}})
        with pytest.raises(VeilgraphError):
            predict(name, folder)
    write(folder, document)
    arrays = unpacked(content)
    last = list(arrays)[-1]
    (folder / "weights.npz").write_bytes(packed(arrays | {last: arrays[last].astype(np.complex64)}))
    with pytest.raises(VeilgraphError):
        predict(name, folder)


@two_methods
@pytest.mark.parametrize("file", ["model.json", "weights.npz"])
@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_a_damaged_file_is_refused(name: str, saved: Path, file: str, damage: str) -> None:
    FILE_DAMAGES[damage](saved / file)
    check_refused(name, saved, damage)


@two_methods
@pytest.mark.parametrize("text", DOCUMENT_TEXTS)
def test_another_document_is_refused(name: str, saved: Path, text: str) -> None:
    (saved / "model.json").write_text(DOCUMENT_TEXTS[text], encoding="utf-8")
    check_refused(name, saved, text)


def test_a_value_of_another_type_at_any_key_is_refused(name: str, saved: Path) -> None:
    for place, document in retyped(read(saved)):
        write(saved, document)
        check_refused(name, saved, place)


def test_a_document_without_a_key_or_with_another_one_is_refused(name: str, saved: Path) -> None:
    document = read(saved)
    for key, rest in lacking(document):
        write(saved, rest)
        check_refused(name, saved, key)
    for unknown in (document | {"unknown": 1}, document | {"parameters": document["parameters"] | {"unknown": 1}}):
        write(saved, unknown)
        check_refused(name, saved, "unknown")


@two_methods
def test_another_name_of_the_method_is_refused(name: str, saved: Path) -> None:
    write(saved, read(saved) | {"method": "another"})
    check_refused(name, saved, "another method")


def test_an_array_that_is_missing_added_or_changed_is_refused(name: str, saved: Path) -> None:
    for place, content in changed_arrays((saved / "weights.npz").read_bytes()):
        (saved / "weights.npz").write_bytes(content)
        check_refused(name, saved, place)


@two_methods
def test_an_archive_that_would_fill_the_memory_is_refused(name: str, saved: Path) -> None:
    (saved / "weights.npz").write_bytes(bomb(2**26))
    check_refused(name, saved, "bomb")


@two_methods
def test_the_weights_of_another_fit_are_noticed_by_the_manifest(name: str, tmp_path: Path) -> None:
    method, _ = fitted(name)
    method.save(tmp_path)
    content = (tmp_path / "weights.npz").read_bytes()
    arrays = unpacked(content)
    arrays[list(arrays)[-1]].flat[0] += np.float32(1e-3)
    (tmp_path / "weights.npz").write_bytes(packed(arrays, comment_of(content)))
    with pytest.raises(FitError, match=r"weights\.npz was changed after it was written, by the manifest"):
        type(method).load(tmp_path)


@two_methods
def test_weights_without_a_manifest_are_refused(name: str, tmp_path: Path) -> None:
    method, _ = fitted(name)
    method.save(tmp_path)
    (tmp_path / "weights.npz").write_bytes(packed(unpacked((tmp_path / "weights.npz").read_bytes())))
    with pytest.raises(FitError, match="by the manifest"):
        type(method).load(tmp_path)


@two_methods
def test_a_changed_parameter_is_noticed_by_the_manifest(name: str, tmp_path: Path) -> None:
    method, _ = fitted(name)
    method.save(tmp_path)
    document = read(tmp_path)
    if "feature_hops" in document["parameters"]:
        document["parameters"]["feature_hops"] = 3
    else:
        document["parameters"].pop("device", None)
        document["parameters"]["seed"] = 3
    write(tmp_path, document)
    with pytest.raises(FitError, match=r"model\.json was changed after it was written"):
        type(method).load(tmp_path)


def test_numbers_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    method = METHODS["majority"].make({})
    vars(method).update(distribution_=np.array([[np.nan, 1.0]], dtype=np.float32), num_nodes_=3)
    with pytest.raises(FitError, match="'distribution' holds values that are not finite"):
        method.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_type_behind_a_generic_alias_is_checked_as_itself() -> None:
    scalar = TypeVar("scalar", bound=np.generic)
    array = TypeAliasType("array", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))
    assert conforms(np.ones(2, dtype=np.float32), array[np.float32])
    assert not conforms(np.ones(2, dtype=np.float64), array[np.float32])
    assert not conforms([1.0], array[np.float32])
