"""`veilgraph lab data` end to end, with a catalogue of one small graph and a local server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.file_server import LocalServer, serving
from tests.support.originals import SMALL, planetoid_files, small_archive
from tests.support.public_data import real_folder
from veilgraph.cli import main
from veilgraph.datasets import catalogue
from veilgraph.datasets.catalogue import Origin, OriginalFile, Statistics

Capture = pytest.CaptureFixture[str]
TABLE = ("--results", "runs/paper")
FILES = planetoid_files(small_archive(), rest=3)
PUBLISHED = Statistics(nodes=6, edges=7, average_degree=1.7, columns=6, sparsity=80.6, classes=2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalServer]:
    """Yield a server with the files of the only data set of the catalogue; the cache folder is empty."""
    for variable, value in {"no_proxy": "127.0.0.1", "VEILGRAPH_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(variable, value)
    with serving(FILES) as running:
        files = tuple(
            OriginalFile(part=part, url=running.url(part), sha256=hashlib.sha256(content).hexdigest())
            for part, content in FILES.items()
        )
        small = replace(
            SMALL,
            note="A note",
            origins=(Origin(format="planetoid", files=files),),
            published=PUBLISHED,
            published_accuracy=(74.7, 1.2),
            differences={"edges": "two were miscounted"},
        )
        monkeypatch.setattr(catalogue, "known_datasets", lambda: {"small": small})
        yield running


def succeed(capsys: Capture, *arguments: str) -> str:
    assert main(["lab", "data", *arguments]) == 0
    return capsys.readouterr().out


def fail(capsys: Capture, *arguments: str) -> str:
    assert main(["lab", "data", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_a_data_set_is_fetched_then_listed_then_left_alone(
    server: LocalServer, tmp_path: Path, capsys: Capture
) -> None:
    assert "not fetched" in succeed(capsys)
    assert succeed(capsys, "small", "--fetch") == f"small: written to {tmp_path / 'veilgraph'}\n"
    assert str(tmp_path / "veilgraph" / "small.npz") in succeed(capsys)
    requests = len(server.requested)
    assert succeed(capsys, "small", "--fetch") == f"small: already in {tmp_path / 'veilgraph'}\n"
    assert len(server.requested) == requests


def test_a_damaged_file_is_fetched_again_without_being_asked(
    server: LocalServer, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "veilgraph").mkdir()
    (tmp_path / "veilgraph" / "small.npz").write_bytes(b"damaged")
    assert "checksum" not in fail(capsys, *TABLE)
    assert "written" in succeed(capsys, "small", "--fetch")
    assert "already" in succeed(capsys, "small", "--fetch")


def test_an_original_whose_hash_is_not_known_needs_an_option(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (small,) = catalogue.known_datasets().values()
    (origin,) = small.origins
    files = tuple(replace(file, sha256=None) for file in origin.files)
    unknown = replace(small, origins=(replace(origin, files=files),))
    monkeypatch.setattr(catalogue, "known_datasets", lambda: {"small": unknown})
    assert "read it unverified" in fail(capsys, "small", "--fetch")
    assert server.requested == []
    assert "written to" in succeed(capsys, "small", "--fetch", "--unverified")


def test_a_folder_can_be_chosen(
    server: LocalServer, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEILGRAPH_DATA", str(tmp_path / "mine"))
    [fetched] = json.loads(succeed(capsys, "small", "--fetch", "--json"))
    [listed] = json.loads(succeed(capsys, "--json"))
    assert listed == fetched
    assert listed["path"] == str(tmp_path / "mine" / "small.npz")
    assert listed["nodes"] == 6
    assert listed["features"] == 2
    monkeypatch.setenv("VEILGRAPH_DATA", "")
    assert json.loads(succeed(capsys, "--json"))[0]["path"] is None


def test_names_are_checked_before_anything_is_fetched_and_progress_names_the_files(
    server: LocalServer, capsys: Capture
) -> None:
    assert "no public data set 'large': known are small" in fail(capsys, "small", "large", "--fetch")
    assert server.requested == []
    assert main(["lab", "data", "small", "--fetch"]) == 0
    assert "small: allx (0 of 6)" in capsys.readouterr().err


def test_a_home_that_lacks_a_file_is_one_line_with_the_remedy(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(server, "files", {})
    line = fail(capsys, "small", "--fetch")
    assert "HTTP 404" in line
    assert "set VEILGRAPH_DATA to it" in line


def test_a_data_set_is_described(server: LocalServer, capsys: Capture) -> None:
    text = succeed(capsys, "small")
    for expected in ("6 nodes, 5 edges", "merged by 4 into 2 features", "note: A note", "licence: none", "not fetched"):
        assert expected in text
    assert "citation: nobody" in text
    assert f"checksum: {SMALL.checksum}" in text
    assert f"origin: {server.url('allx')}" in text
    assert "differs from the paper in edges: two were miscounted" in text
    [facts] = json.loads(succeed(capsys, "small", "--json"))
    assert facts["origins"][0]["files"][0]["url"] == server.url("allx")
    assert facts["checksum"] == SMALL.checksum


def test_the_table_shows_both_figures_and_the_reason(server: LocalServer, capsys: Capture) -> None:
    succeed(capsys, "small", "--fetch")
    lines = succeed(capsys, *TABLE).splitlines()
    assert lines[1].split() == ["small", "paper", "6", "7", "1.7", "6", "80.6", "2", "-", "-", "74.7", "±", "1.2"]
    assert lines[2].split() == ["ours", "6", "5", "1.7", "6", "80.6", "2", "2", "50.0"]
    assert lines[3] == "small, edges: two were miscounted."
    [row] = json.loads(succeed(capsys, *TABLE, "--json"))
    assert row["published"]["accuracy"] == [74.7, 1.2]
    assert row["measured"]["edges"] == 5
    assert row["differences"] == {"edges": "two were miscounted"}


def test_the_table_of_what_is_not_fetched_says_so(server: LocalServer, capsys: Capture) -> None:
    text = succeed(capsys, *TABLE)
    assert "ours" not in text.splitlines()[2]
    assert "small: not fetched; run 'veilgraph lab data small --fetch'" in text
    assert json.loads(succeed(capsys, *TABLE, "--json"))[0]["measured"] is None


def test_a_run_on_what_is_not_fetched_names_the_remedy(server: LocalServer, tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "--dataset", "small"]) == 2
    assert "run 'veilgraph lab data small --fetch'" in capsys.readouterr().err


def test_a_run_reads_a_fetched_data_set(server: LocalServer, tmp_path: Path, capsys: Capture) -> None:
    succeed(capsys, "small", "--fetch")
    arguments = ["--dataset=small", "--set=sampled=1", "--seeds=1", "--set=epochs=1", "--set=clusters=1"]
    assert main(["run", *arguments, f"--out={tmp_path}/r", "--device=cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"] == "small"


def test_the_real_table_explains_every_difference(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEILGRAPH_DATA", str(real_folder()))
    text = succeed(capsys, *TABLE)
    assert text.count("  ours ") == 6
    for explained in ("citeseer, sparsity:", "facebook, edges:", "german, edges:"):
        assert explained in text


def test_the_table_shows_our_accuracy_once_it_was_run(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEILGRAPH_DATA", str(real_folder()))
    table = ["--results", str(tmp_path)]
    arguments = ["--datasets=german", "--seeds=1", "--set=jobs=1", f"--out={tmp_path}"]
    assert main(["lab", "paper", "table1", *arguments]) == 0
    capsys.readouterr()
    rows = json.loads(succeed(capsys, *table, "--json"))
    accuracy = {row["name"]: row["measured"]["accuracy"] for row in rows}
    assert accuracy["german"][0] > 50
    assert accuracy["german"][1] is None
    assert accuracy["cora"] is None
    assert "(one seed)" in succeed(capsys, *table)
