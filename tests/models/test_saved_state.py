"""A folder of any method is what was saved, or it is refused in one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
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


@two_methods
def test_a_damaged_file_another_document_and_a_bomb_are_refused(name: str, tmp_path: Path) -> None:
    """As they were saved, and with a manifest that is written anew after each damage."""
    fitted(name)[0].save(tmp_path / "whole")
    named = json.dumps(read(tmp_path / "whole") | {"method": "another"})
    damages: dict[str, Callable[[Path], object]] = {
        f"{file}: {each}": lambda folder, file=file, each=each: FILE_DAMAGES[each](folder / file)  # type: ignore[misc]
        for file in ("model.json", "weights.npz")
        for each in FILE_DAMAGES
    }
    for each, text in (DOCUMENT_TEXTS | {"another method": named}).items():
        damages[each] = lambda folder, text=text: (folder / "model.json").write_text(text, encoding="utf-8")  # type: ignore[misc]
    damages["bomb"] = lambda folder: (folder / "weights.npz").write_bytes(bomb(2**26))
    for kind in ("saved", SEALED):
        for each, damage in damages.items():
            folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / each.replace("/", "-") / kind))
            damage(folder)
            check_refused(name, folder, each)


@two_methods
def test_what_was_changed_after_it_was_written_is_noticed_by_the_manifest(name: str, tmp_path: Path) -> None:
    method, _ = fitted(name)
    method.save(tmp_path)
    content, document = (tmp_path / "weights.npz").read_bytes(), read(tmp_path)
    arrays = unpacked(content)
    (tmp_path / "weights.npz").write_bytes(packed(arrays))
    with pytest.raises(FitError, match="by the manifest"):
        type(method).load(tmp_path)
    arrays[list(arrays)[-1]].flat[0] += np.float32(1e-3)
    (tmp_path / "weights.npz").write_bytes(packed(arrays, comment_of(content)))
    with pytest.raises(FitError, match=r"weights\.npz was changed after it was written, by the manifest"):
        type(method).load(tmp_path)
    (tmp_path / "weights.npz").write_bytes(content)
    changed = {"feature_hops": 3} if "feature_hops" in document["parameters"] else {"seed": 3}
    write(tmp_path, document | {"parameters": document["parameters"] | changed})
    with pytest.raises(FitError, match=r"model\.json was changed after it was written"):
        type(method).load(tmp_path)


@every_method
def test_an_intact_folder_predicts_the_same_and_another_type_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / SEALED
    fitted(name)[0].save(folder)
    np.testing.assert_allclose(predict(name, folder), predictions(name), rtol=0, atol=ROUNDING)
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


def test_an_array_that_is_missing_added_or_changed_is_refused(name: str, saved: Path) -> None:
    for place, content in changed_arrays((saved / "weights.npz").read_bytes()):
        (saved / "weights.npz").write_bytes(content)
        check_refused(name, saved, place)


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
