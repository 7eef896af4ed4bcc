"""A rehearsal keeps nothing, and no database of the real collection sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.health_folder import begun, settings
from veilgraph.cli import main
from veilgraph.collection import begin
from veilgraph.collection.rehearsal import Page, Rehearsal, copy_of, serving


def test_the_collector_of_a_rehearsal_never_opens_the_database_of_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = begun(tmp_path)
    real = tmp_path / "real.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{real}")
    with copy_of(collection) as copy:
        assert copy.store.process_environment["DATABASE_URL"] == copy.store.url == f"sqlite:///{copy.folder}/reports.db"


def test_what_few_silent_people_say_is_not_overrated() -> None:
    from veilgraph.cli.rehearse import _in_words

    figures = {"homophily": 0.65, "assortativity": 0.3, "accuracy": 0.8, "control": 0.7, "largest_class": 0.6}
    for silent, said in ((15, ["They are few: one of them is 6.7 points, so rehearse again and compare."]), (150, [])):
        found = Rehearsal(answered=45, seconds=1.0, page=Page(requests=4, size=1), silent=silent, **figures)
        assert [each for each in _in_words(found, "club", "next") if each.startswith("They are few")] == said


@pytest.mark.slow
def test_a_running_rehearsal_leaves_the_real_database_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = begun(tmp_path)
    real = tmp_path / "real.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{real}")
    with copy_of(collection) as copy, serving(copy):
        assert (copy.folder / "reports.db").is_file()
    assert not real.exists()


@pytest.mark.slow
def test_a_rehearsal_that_is_stopped_ends_soon_with_its_collector_and_its_folder(tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    links.write_text("one,other\n" + "".join(f"p{each},p{each + 1}\n" for each in range(20_000)))
    decided = settings(tmp_path, people=None, links=links)
    folder, temporary = begin(tmp_path / "crowd", decided, decided.read_graph()).folder, tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "veilgraph", "rehearse", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        assert any("answers" in line and " 0%" not in line for line in process.stderr)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the collector gets it too
        assert process.wait(15) == 130  # a few seconds, on a busy machine
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)  # nobody of the group is left
        assert list(temporary.iterdir()) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


@pytest.mark.slow
def test_the_first_question_about_contacts_is_rehearsed_also_when_a_wave_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wave is computed from real answers, of which a copy has none: `init` names this command as the next one."""
    folder = begun(tmp_path, links=None, contacts="class").folder
    (folder / "waves").mkdir()
    (folder / "waves" / "wave-1.json").write_text("{}")
    assert main(["rehearse", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "simulated people answered over HTTP" in said
    assert "They answered the first question." in said
