"""Shell completion: the script that a shell loads, and the words that the program proposes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from veilgraph.cli import main
from veilgraph.cli.app import parser_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def named_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Let the shell be an argument instead of the one that runs the tests; return an empty home folder."""
    parser_of.cache_clear()  # typer looks for the shell when it builds the parser
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    parser_of.cache_clear()


def ends(*arguments: str) -> None:
    """Run a command that ends the program itself, as those of completion do."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("veilgraph do", {"doctor"}),
        ("veilgraph lab d", {"data"}),
        ("veilgraph train --scr", {"--screen"}),
        ("veilgraph train --method struct", {"structure_only"}),
        ("veilgraph run --dataset c", {"citeseer", "cora", "csbm"}),
        ("veilgraph run --dataset ./m", {"./mine.npz", "./my_tables"}),
        ("veilgraph lab data pub", {"pubmed"}),
        ("veilgraph lab paper table", {"table1", "table2"}),
        ("veilgraph lab paper my_", {"my_experiment.toml"}),
        ("veilgraph account --set tri", {"trials="}),
    ],
)
def test_words_and_values_are_completed(
    words: str, proposed: set[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.npz", "my_experiment.toml", "my_notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "my_tables").mkdir()
    monkeypatch.setenv("_VEILGRAPH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    ends()
    assert set(capsys.readouterr().out.split()) == proposed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(shell: str, named_shell: Path, capsys: Capture) -> None:
    ends("--show-completion", shell)
    assert f"_VEILGRAPH_COMPLETE=complete_{shell}" in capsys.readouterr().out
    assert list(named_shell.iterdir()) == []


def test_the_script_is_installed_for_a_shell(named_shell: Path) -> None:
    ends("--install-completion", "bash")
    assert "veilgraph" in (named_shell / ".bashrc").read_text(encoding="utf-8")
    assert list((named_shell / ".bash_completions").glob("veilgraph*"))
