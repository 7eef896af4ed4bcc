"""The model folder: whole or refused, and nothing else is overwritten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.collected import Collected
from tests.support.damage import (
    DOCUMENT_TEXTS,
    FILE_DAMAGES,
    SEALED,
    bomb,
    changed_arrays,
    packed,
    retyped,
    seal_model,
    unpacked,
)
from tests.support.trained import train_files, train_reports
from veilgraph.deploy import Model
from veilgraph.errors import RunError


def test_a_folder_with_other_files_is_not_written_to_and_an_older_model_is(
    collected: Collected, tmp_path: Path
) -> None:
    model = train_reports(collected.campaign, collected.perturbed, method="plain", epochs=1, device="cpu")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"'thesis\.tex'"):
        model.save(other)
    for _ in range(2):
        model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        Model.load(tmp_path / "model", device="cpu").method.predict_proba(), model.method.predict_proba()
    )


def test_a_damaged_file_or_another_document_is_one_sentence(
    collected: Collected, copy: Path, capsys: Capture, tmp_path: Path
) -> None:
    def damaged(file: str) -> Path:
        folder = tmp_path / "damaged" / copy.name
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(copy, folder)) / file

    for file in (each for each in FILES if (copy / each).exists()):
        for name, damage in FILE_DAMAGES.items():
            if copy.name == SEALED and file == "reports.jsonl" and name == "empty":
                continue  # a model of no reports: nothing but the manifest says otherwise
            path = damaged(file)
            damage(path)
            check_refused(collected, path.parent, capsys, f"{file} {name}")
    for file in ("campaign.json", "model.json", "training.json"):
        for name, text in DOCUMENT_TEXTS.items():
            path = damaged(file)
            path.write_text(text, encoding="utf-8")
            check_refused(collected, path.parent, capsys, f"{file} {name}")


def test_any_changed_byte_is_named_with_its_file_and_a_manifest_is_needed(
    collected: Collected, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    for file in FILES:
        folder = shutil.copytree(trained, tmp_path / file / "model")
        content = bytearray((folder / file).read_bytes())
        digit = min(place for place, byte in enumerate(content) if chr(byte).isdigit())
        content[digit] = ord("1") if content[digit] != ord("1") else ord("2")
        (folder / file).write_bytes(content)
        assert file in check_refused(collected, folder, capsys, file)
    folder = shutil.copytree(trained, tmp_path / "model")
    facts = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    del facts["manifest"]
    (folder / "training.json").write_text(json.dumps(facts), encoding="utf-8")
    assert "by the manifest" in check_refused(collected, folder, capsys, "no manifest")
    for missing in ("training.json", "campaign.json", "reports.jsonl"):
        folder = shutil.copytree(trained, tmp_path / missing / "unfinished")
        (folder / missing).unlink()
        with pytest.raises(RunError, match="no model"):
            Model.load(folder)


FILES = ["campaign.json", "model.json", "nodes.json", "reports.jsonl", "training.json", "weights.npz"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(params=["model", SEALED])
def copy(trained: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the model's folder, or one whose manifests are written anew after each damage.

    The second has no order of the nodes, so that a prediction applies the weights.
    """
    folder = Path(shutil.copytree(trained, tmp_path / request.param))
    if folder.name == SEALED:
        (folder / "nodes.json").unlink()
        seal_model(folder)
    return folder


def check_refused(collected: Collected, folder: Path, capsys: Capture, damage: str) -> str:
    """Check that a prediction ends with one sentence and code 2, and writes nothing; return the sentence."""
    out = folder.parent / "predictions.csv"
    capsys.readouterr()
    if folder.name == SEALED:
        seal_model(folder)
    assert collected.command("predict", model=folder, graph=collected.folder / "edges.csv", out=out) == 2, damage
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    assert not out.exists(), damage
    assert len(sentence) < 800, damage
    return sentence


def test_an_intact_folder_predicts(collected: Collected, copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    assert collected.command("predict", model=copy, graph=collected.folder / "edges.csv", out=out) == 0


@pytest.mark.parametrize("key", ["method", "campaign"])
def test_a_description_of_another_type_is_one_sentence(
    collected: Collected, copy: Path, capsys: Capture, key: str
) -> None:
    document = json.loads((copy / "training.json").read_text(encoding="utf-8"))
    for place, changed in retyped({key: document[key]}):
        (copy / "training.json").write_text(json.dumps(document | changed), encoding="utf-8")
        check_refused(collected, copy, capsys, place)


def test_changed_weights_are_one_sentence(collected: Collected, copy: Path, capsys: Capture) -> None:
    for place, content in changed_arrays((copy / "weights.npz").read_bytes()):
        (copy / "weights.npz").write_bytes(content)
        check_refused(collected, copy, capsys, place)
    (copy / "weights.npz").write_bytes(bomb(2**24))
    check_refused(collected, copy, capsys, "bomb")


def test_weights_that_are_finite_and_too_large_are_one_sentence(
    collected: Collected, copy: Path, capsys: Capture
) -> None:
    saved = unpacked((copy / "weights.npz").read_bytes())
    arrays = {name: np.sign(array) * np.float32(3e38) for name, array in saved.items()}
    arrays["probabilities"] = saved["probabilities"]
    (copy / "weights.npz").write_bytes(packed(arrays))
    check_refused(collected, copy, capsys, "large weights")


def test_a_folder_mixed_from_two_campaigns_is_one_sentence(
    collected: Collected, copy: Path, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Collected(tmp_path / "other", features=12)
    train_reports(other.campaign, other.perturbed, method="rgnn", epochs=1, device="cpu").save(other.folder / "model")
    for parts in (["campaign.json"], ["model.json", "weights.npz"], ["campaign.json", "training.json"]):
        folder = Path(shutil.copytree(copy, tmp_path / "-".join(parts) / copy.name))
        for part in parts:
            shutil.copy(other.folder / "model" / part, folder / part)
        check_refused(collected, folder, capsys, f"{parts} of another campaign")


WRITTEN = ["weights.npz", "model.json", "campaign.json", "reports.jsonl", "nodes.json"]
"""Files of a model in the order in which they are written, before training.json."""


@pytest.fixture(scope="module")
def whole(collected: Collected, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("trained") / "whole"
    train_reports(collected.campaign, collected.perturbed, method="veil", device="cpu").save(folder)
    return folder


def test_a_training_that_was_killed_while_saving_leaves_no_model_and_starts_again(
    collected: Collected, trained: Path, whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A process can be killed between any two files, and in the middle of one: then a draft is left."""
    for count in range(len(WRITTEN) + 1):
        for before in ("no model", "an older model"):
            folder = tmp_path / str(count) / before
            if before == "an older model":
                shutil.copytree(trained, folder)
                (folder / "training.json").unlink()  # the first thing that saving does
            folder.mkdir(exist_ok=True, parents=True)
            for name in WRITTEN[:count]:
                shutil.copy(whole / name, folder / name)
            (folder / f".{[*WRITTEN, 'training.json'][count]}.0123456789abcdef.part").write_bytes(b"half")
            check_refused(collected, folder, capsys, f"killed after {count} files")
            if count != 2:
                continue
            train_files(collected.store, out=folder, device="cpu", card=False, **collected.files())
            assert sorted(path.name for path in folder.iterdir()) == sorted([*WRITTEN, "training.json"])
            for name in WRITTEN:
                assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_saving_that_is_interrupted_leaves_no_draft(collected: Collected, tmp_path: Path) -> None:
    model = train_reports(collected.campaign, collected.perturbed, method="veil", device="cpu")

    def interrupted() -> Iterator[str]:
        yield next(iter(model.report_lines()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(model, report_lines=interrupted).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaign.json", "model.json", "weights.npz"]
    with pytest.raises(RunError, match="no model"):
        Model.load(tmp_path)
    model.save(tmp_path)
    np.testing.assert_array_equal(
        Model.load(tmp_path, device="cpu").method.predict_proba(), model.method.predict_proba()
    )
