"""`veilgraph serve` says what is missing or wrong before it serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.collection import Collection
from veilgraph.cli import main

Capture = pytest.CaptureFixture[str]
COLLECTION = Collection.ring(6)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write the files of a campaign, and campaigns.toml that names them; return the options of the campaign."""
    monkeypatch.chdir(tmp_path)
    given = COLLECTION.write(tmp_path)
    lines = [f"{option[2:]} = {json.dumps(path)}" for option, path in zip(given[::2], given[1::2], strict=True)]
    Path("campaigns.toml").write_text("\n".join(["[flu]", *lines]), encoding="utf-8")
    return given


def test_files_can_be_checked_without_serving_and_without_a_store(options: list[str], capsys: Capture) -> None:
    for arguments, address in ((options, "/"), (["--campaigns", "campaigns.toml"], "/c/flu/")):
        assert main(["serve", *arguments, "--store", "sqlite:///reports.db", "--check"]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{address}: campaign {COLLECTION.campaign.id}, 6 nodes, open until ")
        assert "All files are in order." in printed
    assert not Path("reports.db").exists()


def test_a_mistake_is_one_sentence_with_the_remedy(options: list[str], capsys: Capture) -> None:
    for arguments, message in (
        ([], "--campaign is missing: give --campaign, --graph, --keys-file, --admin-token-file for one campaign, or"),
        (options[2:], "--campaign is missing"),
        (["--campaigns", "campaigns.toml", *options[:2]], "--campaign is of one campaign: write it into its table in"),
        (["--campaigns", "none.toml"], "none.toml: No such file or directory"),
    ):
        assert main(["serve", *arguments, "--store", "sqlite:///reports.db", "--check"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
