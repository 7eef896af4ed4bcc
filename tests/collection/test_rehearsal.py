"""A rehearsal keeps nothing, and no database of the real collection sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.health_folder import begun
from veilgraph.collection.rehearsal import copy_of, serving


def test_the_collector_of_a_rehearsal_never_opens_the_database_of_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = begun(tmp_path)
    real = tmp_path / "real.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{real}")
    with copy_of(collection) as copy:
        assert copy.store.process_environment["DATABASE_URL"] == copy.store.url == f"sqlite:///{copy.folder}/reports.db"


@pytest.mark.slow
def test_a_running_rehearsal_leaves_the_real_database_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = begun(tmp_path)
    real = tmp_path / "real.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{real}")
    with copy_of(collection) as copy, serving(copy):
        assert (copy.folder / "reports.db").is_file()
    assert not real.exists()
