"""Downloads from a local server: a data set is written complete and checked, or not at all."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.damage import bomb
from tests.support.file_server import LocalServer, serving
from tests.support.originals import SMALL, graph2gauss_file, musae_files, planetoid_files, small_archive
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset, Origin, OriginalFile, open_archive
from veilgraph.datasets.fetch import MAX_FILE_BYTES
from veilgraph.datasets.fetch import fetch as fetch_verified
from veilgraph.errors import RunError

FILES = planetoid_files(small_archive(), rest=3)

fetch = partial(fetch_verified, unverified=True)  # the file "graph" of `planetoid` has no known SHA-256


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(FILES | graph2gauss_file(small_archive()) | {"text": b"<html>Sorry</html>"}) as running:
        yield running


def planetoid(server: LocalServer, **instead: str) -> Origin:
    """Return the origin of the small graph, with some parts under another path."""
    files = [
        OriginalFile(
            part=part,
            url=server.url(instead.get(part, part)),
            sha256=hashlib.sha256(content).hexdigest() if part != "graph" else None,
        )
        for part, content in FILES.items()
    ]
    return Origin(format="planetoid", files=tuple(files))


def entry(*origins: Origin) -> Dataset:
    return replace(SMALL, origins=origins)


def problem(dataset: Dataset, folder: Path, timeout: float = 10.0, max_file_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the message of a failing download, and check that no file is left."""
    with pytest.raises(RunError) as caught:
        fetch(dataset, folder, timeout=timeout, max_file_bytes=max_file_bytes)
    assert not folder.exists() or not list(folder.iterdir())
    message = str(caught.value)
    assert message.startswith("small could not be fetched: ")
    assert message.endswith("or put small.npz from another machine into a folder and set VEILGRAPH_DATA to it")
    return message


def test_a_fetched_data_set_is_the_catalogued_one(server: LocalServer, tmp_path: Path) -> None:
    dataset = entry(planetoid(server))
    path = fetch(dataset, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "small.npz"
    assert open_archive(dataset, path.parent).checksum == SMALL.checksum
    assert [file.name for file in path.parent.iterdir()] == ["small.npz"]


def test_progress_counts_the_files(server: LocalServer, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    fetch(entry(planetoid(server)), tmp_path, progress=lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == list(range(7))
    assert {total for _, _, total in steps} == {6}
    assert steps[0][0] == "allx"


def test_a_length_that_is_not_announced_is_no_obstacle(server: LocalServer, tmp_path: Path) -> None:
    assert fetch(entry(planetoid(server, allx="unannounced!allx")), tmp_path).is_file()


FAULTS: dict[str, tuple[Callable[[LocalServer], Origin], str]] = {
    "missing file": (lambda s: planetoid(s, tx="absent"), "/absent cannot be downloaded (HTTP 404)"),
    "interrupted transfer": (lambda s: planetoid(s, tx="broken-off!tx"), "tx ended after"),
    "interrupted transfer without checksum": (lambda s: planetoid(s, graph="broken-off!graph"), "graph ended after"),
    "another file": (lambda s: planetoid(s, tx="text"), "/text is not the file of the catalogue (its SHA-256"),
    "another file without checksum": (
        lambda s: planetoid(s, graph="text"),
        "not in the expected form (UnpicklingError)",
    ),
    "redirection to a file": (lambda s: planetoid(s, tx="to-file!tx"), "tx cannot be downloaded (HTTP 302)"),
    "no such host": (
        lambda s: Origin(format="planetoid", files=(OriginalFile(part="x", url="http://localhost:1/x"),)),
        "cannot be reached",
    ),
    "a local file": (
        lambda s: Origin(format="planetoid", files=(OriginalFile(part="x", url="file:///etc/hostname"),)),
        "cannot be reached (unknown url type: file)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence_with_the_remedy_and_leaves_nothing(
    fault: str, server: LocalServer, tmp_path: Path
) -> None:
    origin, expected = FAULTS[fault]
    assert expected in problem(entry(origin(server)), tmp_path)


def test_a_server_that_does_not_answer_is_given_up(server: LocalServer, tmp_path: Path) -> None:
    message = problem(entry(planetoid(server, allx="hang!allx")), tmp_path, timeout=0.2)
    assert "allx cannot be reached (timed out)" in message


def test_a_file_that_is_too_large_is_not_read_to_its_end(server: LocalServer, tmp_path: Path) -> None:
    assert "allx is larger than 16 bytes" in problem(entry(planetoid(server)), tmp_path, max_file_bytes=16)


def test_originals_that_hold_other_data_are_refused_even_without_their_checksum(
    server: LocalServer, tmp_path: Path
) -> None:
    dataset = replace(entry(planetoid(server)), checksum="0" * 64)
    assert "hold other data than the catalogue (the checksum differs)" in problem(dataset, tmp_path)


def test_a_failure_leaves_the_file_that_was_there(server: LocalServer, tmp_path: Path) -> None:
    path = fetch(entry(planetoid(server)), tmp_path)
    before = path.read_bytes()
    with pytest.raises(RunError):
        fetch(entry(planetoid(server, ty="absent")), tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_second_source_is_tried_when_the_first_fails(server: LocalServer, tmp_path: Path) -> None:
    second = Origin(format="graph2gauss", files=(OriginalFile(part="archive", url=server.url("archive")),))
    path = fetch(entry(planetoid(server, allx="absent"), second), tmp_path)
    assert Archive.read(path).checksum == SMALL.checksum


def test_when_every_source_fails_the_first_problem_is_reported(server: LocalServer, tmp_path: Path) -> None:
    message = problem(entry(planetoid(server, allx="absent"), planetoid(server, allx="text")), tmp_path)
    assert "absent cannot be downloaded (HTTP 404) (its other source failed, too)" in message


def test_text_originals_are_fetched_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    archive = small_archive(width=3170, loops=False)
    files = musae_files(archive)
    with serving(files) as server:
        originals = tuple(OriginalFile(part=part, url=server.url(part)) for part in files)
        origin = Origin(format="musae-twitch", files=originals)
        path = fetch(replace(entry(origin), checksum=archive.checksum), tmp_path)
    assert Archive.read(path).checksum == archive.checksum


def pinned(origin: Origin) -> Origin:
    """Return an origin with the SHA-256 of every file."""
    hashes = {part: hashlib.sha256(content).hexdigest() for part, content in FILES.items()}
    return replace(origin, files=tuple(replace(file, sha256=hashes[file.part]) for file in origin.files))


def test_an_original_without_a_known_hash_is_not_even_downloaded(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no SHA-256 of http://.*/graph; read it unverified"):
        fetch_verified(entry(planetoid(server)), tmp_path)
    assert server.requested == []
    assert fetch_verified(entry(planetoid(server), pinned(planetoid(server))), tmp_path).is_file()


def test_an_original_with_another_hash_is_not_read(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="/text is not the file of the catalogue"):
        fetch_verified(entry(pinned(planetoid(server, graph="text"))), tmp_path)


@pytest.mark.parametrize("unverified", [False, True])
def test_a_small_archive_that_unpacks_to_gigabytes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unverified: bool
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving({"archive": bomb(2**28)}) as server:
        file = OriginalFile(part="archive", url=server.url("archive"), sha256=None if unverified else "0" * 64)
        dataset = entry(Origin(format="graph2gauss", files=(file,)))
        tracemalloc.start()
        try:
            with pytest.raises(RunError, match="ArchiveError" if unverified else "SHA-256 differs"):
                fetch_verified(dataset, tmp_path, unverified=unverified)
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()
