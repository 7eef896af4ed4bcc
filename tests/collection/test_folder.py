"""A command finds everything in the folder, and says what is missing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.support.health_folder import begun
from veilgraph.collection import Collection
from veilgraph.errors import VeilgraphError

DAY = date(2027, 3, 1)


def test_reports_are_in_the_folder_unless_the_environment_names_a_database(tmp_path: Path) -> None:
    folder = begun(tmp_path).folder
    inside, outside = (
        Collection(folder, environment={}),
        Collection(folder, environment={"DATABASE_URL": "postgresql://h/d"}),
    )
    assert inside.store.url == f"sqlite:///{folder}/reports.db"
    assert outside.store.url == "postgresql://h/d"
    assert (inside.store.exists, outside.store.exists) == (False, True)
    (folder / "reports.db").touch()
    assert inside.store.exists


def test_each_model_of_a_day_has_its_folder_and_a_stopped_training_goes_on_in_its_own(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    first = collection.models.new(DAY)
    assert collection.models.newest is None
    first.mkdir(parents=True)
    assert collection.models.new(DAY) == first  # it was stopped before it had a model
    (first / "training.json").touch()
    assert collection.models.new(DAY) == first  # it was stopped before it had a card and predictions
    assert collection.models.newest is None
    (first / "predictions.csv").touch()
    assert collection.models.new(DAY) == collection.models.folder / "2027-03-01-2"
    assert collection.models.newest == first


def test_a_folder_without_a_collection_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VeilgraphError, match="is no collection: 'veilgraph init"):
        Collection.open(tmp_path)


def test_a_table_that_was_removed_or_changed_is_named(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    text = collection.people_file.read_text(encoding="utf-8-sig")
    collection.people_file.write_text(text + "late;de\n", encoding="utf-8")
    with pytest.raises(VeilgraphError, match="61 nodes"):
        _ = Collection(collection.folder).graph
    collection.people_file.unlink()
    with pytest.raises(VeilgraphError, match=r"people\.csv is missing: put back the table"):
        _ = Collection(collection.folder).graph
