"""Long work shows its progress in a notebook or a terminal, and logs it; short work logs nothing."""

from __future__ import annotations

import io
import logging
import time

import pytest

from veilgraph.progress import say, show_progress, tracked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a number that a test sets."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_progress_is_logged_every_five_seconds(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    seen = []
    for step in tracked(range(10), "digging"):
        seen.append(step)
        clock[0] += 2
    assert seen == list(range(10))
    assert caplog.messages == ["digging: 3 of 10", "digging: 6 of 10", "digging: 9 of 10"]


def test_short_work_is_silent(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    assert len(list(tracked(range(1000), "digging"))) == 1000
    assert caplog.messages == []


def test_a_choice_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    say("the spade, since the shovel is too large")
    assert caplog.messages == ["the spade, since the shovel is too large"]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_is_rewritten(clock: list[float]) -> None:
    terminal = Terminal()
    with show_progress("fits", stream=terminal) as progress:
        for done in range(5):
            clock[0] += 1
            progress("cora,\x1b[2J rgnn", done, 4)
    written = terminal.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\n")
    frames = [frame.removesuffix("\x1b[K") for frame in written.strip("\n").split("\r")[1:]]
    assert frames[0] == "fits ........................ 0/4 cora,?[2J rgnn"  # nothing moves the cursor
    assert frames[-1] == "fits ######################## 4/4 cora,?[2J rgnn"
    assert all(len(frame) < 80 for frame in frames)


def test_fast_steps_are_not_drawn_one_by_one_but_the_last_one_is(clock: list[float]) -> None:
    terminal = Terminal()
    with show_progress("fits", stream=terminal) as progress:
        for done in range(1001):
            clock[0] += 0.001
            progress("fast", done, 1000)
    assert terminal.getvalue().count("\r") <= 13
    assert "1000/1000" in terminal.getvalue()


def test_the_line_ends_when_the_work_fails() -> None:
    terminal = Terminal()

    def fail() -> None:
        with show_progress("fits", stream=terminal) as progress:
            progress("bad", 1, 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.getvalue().endswith("\n")


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = io.StringIO()
    for stream in (pipe, None):
        with show_progress("fits", stream=stream) as progress:
            progress("work", 1, 2)
    assert pipe.getvalue() == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_notebook_has_one_bar_that_is_updated() -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    source = (
        "from veilgraph.progress import show_progress\n"
        "with show_progress('fits <b>') as progress:\n"
        "    for done in range(4):\n"
        "        progress('step', done, 3)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    (output,) = notebook.cells[0].outputs
    assert output["data"]["text/html"] == '<progress value="3" max="3"></progress> fits &lt;b&gt;: 3 of 3 step'
