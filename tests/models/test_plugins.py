"""A Python file of one's own is run once, and one that fails is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from veilgraph.cli import main
from veilgraph.errors import RunError
from veilgraph.models.plugins import import_files, imported_files


def test_a_file_is_run_once(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"from pathlib import Path\nwith Path({str(log)!r}).open('a') as log:\n    log.write('ran')\n")
    import_files([plugin, plugin])
    import_files([plugin])
    assert log.read_text() == "ran"
    assert plugin.resolve() in imported_files()


def test_a_file_that_fails_is_refused_and_not_counted_as_imported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    with pytest.raises(RunError, match=r"broken\.py cannot be imported \(ZeroDivisionError: division by zero\)"):
        import_files([broken])
    assert broken.resolve() not in imported_files()


def test_a_missing_file_is_one_line_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--import", str(tmp_path / "gone.py"), "account"]) == 2
    assert "gone.py is not a Python file: give the file that registers" in capsys.readouterr().err
