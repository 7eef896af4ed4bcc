"""The folder of a series: complete waves that follow are found by their hashes, and every other file is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.neighbour_series import (
    CAPPED,
    CLASS,
    CLOSES,
    HISTOGRAM,
    PEOPLE,
    TABLE,
    first_document,
    of_series,
    waves_of,
)
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.series import table_path
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.series_folder import check_follows, following_waves, newest_document, wave_path
from veilgraph.errors import CampaignError

FIRST, ONE, TWO = waves_of(HISTOGRAM, CLASS)


def found_in(folder: Path, before: Campaign = FIRST) -> tuple[list[Campaign], dict[str, str]]:
    """Return the waves that follow, and why other files are refused."""
    refused: dict[str, str] = {}
    waves = following_waves(folder, before, refused=lambda path, why: refused.update({path.name: why}))
    return [wave.campaign for wave in waves], refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table_path(tmp_path, TABLE.sha256).write_bytes(TABLE.to_bytes())
    return tmp_path


def write(folder: Path, campaign: Campaign, name: str) -> None:
    (folder / name).write_text(campaign.to_json() + "\n", encoding="utf-8")


def test_waves_are_found_in_their_order_whatever_their_files_are_called(folder: Path) -> None:
    assert found_in(folder / "not yet") == ([], {})
    for name, campaign in {"c": FIRST, "b": ONE, "a": TWO}.items():
        write(folder, campaign, f"{name}.json")
    assert found_in(folder) == ([ONE, TWO], {})
    assert found_in(folder, ONE) == ([TWO], {})
    assert found_in(folder, TWO) == ([], {})
    for known in (FIRST, ONE, TWO):
        assert newest_document(folder, known) == TWO
    assert wave_path(folder, 2) == folder / "wave-2.json"


def test_a_revised_copy_of_a_wave_counts_with_its_newest_notice(folder: Path) -> None:
    write(folder, ONE, "a.json")
    write(folder, later := ONE.revise(contact="next@example.org"), "b.json")
    assert found_in(folder) == ([later], {})


def test_a_wave_without_its_own_table_is_incomplete(folder: Path) -> None:
    write(folder, ONE, "wave-1.json")
    table_path(folder, TABLE.sha256).write_bytes(TABLE.to_bytes()[:-1])
    waves, refused = found_in(folder)
    assert waves == []
    assert "give its own table" in refused["wave-1.json"]
    table_path(folder, TABLE.sha256).unlink()
    assert "cannot be read" in found_in(folder)[1]["wave-1.json"]
    with pytest.raises(CampaignError, match=r"wave-1\.json: .*cannot be read"):
        newest_document(folder, FIRST)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "JSON"),
        (TWO.to_json(), "the document before it was not taken up"),
        (first_document(epsilon_y=1.0).to_json(), "of another series"),
        (waves_of(CLASS, first=first_document(epsilon_y=1.0))[1].to_json(), "of another series"),
        (ONE.to_json().replace('"nodes":6', '"nodes":7'), "altered"),
    ],
)
def test_any_other_file_is_refused_with_a_reason(content: str, why: str, folder: Path) -> None:
    (folder / "wave-1.json").write_text(content, encoding="utf-8")
    waves, refused = found_in(folder)
    assert waves == []
    assert why in refused["wave-1.json"]


def test_two_documents_of_one_wave_are_both_refused(folder: Path) -> None:
    write(folder, ONE, "a.json")
    write(folder, waves_of(CAPPED)[1], "b.json")
    waves, refused = found_in(folder)
    assert waves == []
    assert set(refused) == {"a.json", "b.json"}
    assert "leave one of them" in refused["a.json"]
    assert found_in(folder, ONE) == (
        [],
        {"b.json": "it is another document of wave 1, which was open before: remove it"},
    )


def test_a_wave_keeps_the_questions_and_promises_of_its_series() -> None:
    check_follows(TWO, ONE)
    asked = series_of(TWO.asked)
    others = (
        replace(asked, answers=(CAPPED, CLASS)),
        replace(asked, label=replace(asked.label, epsilon=3.0)),
        replace(asked, people="0" * 64),
    )
    for other in others:
        with pytest.raises(CampaignError, match="other people or earlier questions"):
            check_follows(of_series(TWO, other), ONE)
    with pytest.raises(CampaignError, match="other people or earlier questions"):
        check_follows(replace(TWO, asked=replace(TWO.asked, graph_sha256="0" * 64)), ONE)
    with pytest.raises(CampaignError, match="was open before"):
        check_follows(ONE, TWO)
    until = CLOSES + timedelta(days=30)
    promised = first_document(retention=until)
    wave = NextWave(answer=CLASS, closes=CLOSES).after(promised, people=PEOPLE, table=TABLE.sha256)
    check_follows(wave, promised)
    for longer in (until + timedelta(days=1), None):
        with pytest.raises(CampaignError, match="keeps reports for longer"):
            check_follows(replace(wave, notice=replace(wave.notice, retention=longer)), promised)
