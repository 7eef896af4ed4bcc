"""The files of a running page can be compared with those of the version, file by file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette

from tests.support.running_collector import listening
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.middleware import TokenBuckets
from veilgraph.collector.page_hashes import compare_page, page_hashes, sha256sums
from veilgraph.collector.participant_page import PageFile, PageFiles, participant_page
from veilgraph.errors import VeilgraphError


@contextmanager
def page_of(files: dict[str, PageFile]) -> Iterator[str]:
    """Serve files alone; yield their address."""
    metrics = Metrics(campaign="", queued=lambda: 0)
    with listening(
        PageFiles(Starlette(), files, buckets=TokenBuckets(per_second=0, burst=1), metrics=metrics)
    ) as client:
        yield str(client.base_url)


def test_the_page_of_this_version_does_not_differ_from_itself() -> None:
    with page_of(participant_page()) as address:
        assert compare_page(address) == []
        assert compare_page(f"{address}/index.html?a=b#node=u1&token=t0ken") == []


def test_one_altered_byte_of_any_file_is_named() -> None:
    for path in sorted(set(participant_page()) - {"/favicon.ico"}):
        right = participant_page()[path]
        altered = PageFile(right.content[:-2] + b" \n", right.media_type)
        assert altered.content != right.content
        with page_of(participant_page() | {path: altered}) as address:
            (difference,) = compare_page(address)
        assert difference.startswith(path.removeprefix("/") or "index.html")
        assert "differs" in difference


def test_a_file_that_is_missing_is_named() -> None:
    files = {path: file for path, file in participant_page().items() if not path.endswith("/de.json")}
    with page_of(files) as address:
        assert compare_page(address) == ["languages/de.json is not served: the server answers 404"]


@pytest.mark.parametrize("address", ["file:///etc/hostname", "example.org", "https://"])
def test_what_is_no_address_of_a_server_is_refused(address: str) -> None:
    with pytest.raises(VeilgraphError, match="begins with https"):
        compare_page(address)


def test_a_server_that_does_not_answer_is_told() -> None:
    with page_of({}) as address:
        pass
    with pytest.raises(VeilgraphError, match="cannot be reached"):
        compare_page(address)


def test_the_published_list_is_what_sha256sum_reads(tmp_path: Path) -> None:
    for path, file in participant_page().items():
        kept = tmp_path / (path.removeprefix("/") or "index.html")
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(file.content)
    printed = subprocess.run(
        [sys.executable, "-m", "veilgraph.collector.page_hashes"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == sha256sums(page_hashes())
    sums = shutil.which("sha256sum")
    if sums is None:
        pytest.skip("sha256sum, which checks the list, is not installed")
    subprocess.run([sums, "--check", "--strict"], cwd=tmp_path, input=printed, text=True, check=True)
