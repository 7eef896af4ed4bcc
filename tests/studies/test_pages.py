"""Pages show what stored results say, and say which figures are older than the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from studies.pages import StoredResult, main, pages, problems, stored_results, table_in, take, written

from veilgraph.errors import RunError
from veilgraph.models.registry import METHODS

TABLE = "| graph | Veil |\n| --- | ---: |\n| Cora | 64.0 ± 1.9 |\n| Flickr | 30.1 ± 0.4 |\n"
MARKERS = "<!-- result: small -->\n<!-- end of result -->\n"
GIVEN = {
    "command": "python -m studies.veil",
    "data": "Two graphs",
    "seeds": "100 to 119",
    "device": "CPU",
    "methods": ["veil", "structure_only"],
}


@pytest.fixture
def small(tmp_path: Path) -> StoredResult:
    return take("small", "Some words.\n\n" + TABLE, GIVEN, folder=tmp_path)


@pytest.fixture
def raise_revision(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def raised() -> None:
        monkeypatch.setitem(METHODS, "veil", replace(METHODS["veil"], revision=METHODS["veil"].revision + 1))

    return raised


def test_every_page_shows_its_stored_results() -> None:
    results = stored_results()
    found = [f"{page.name} {each}" for page in pages() for each in problems(page.read_text(encoding="utf-8"), results)]
    assert not found, "\n".join(found)


def test_every_stored_result_is_shown() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [name for name in stored_results() if f"<!-- result: {name} -->" not in shown] == []


def test_a_table_comes_back_as_it_was_stored(small: StoredResult, tmp_path: Path) -> None:
    assert StoredResult.load(tmp_path / "small.json") == small
    assert table_in(small.to_markdown()) == table_in(TABLE)


def test_a_table_says_how_it_was_measured(small: StoredResult) -> None:
    assert (
        f"Seeds 100 to 119. Device: CPU. Veil has revision {METHODS['veil'].revision}, as in the package." in small.made
    )
    assert "`python -m studies.veil`" in small.made


def test_of_a_result_that_nothing_repeats_the_page_says_so(small: StoredResult) -> None:
    assert replace(small, command="").made.endswith("No command repeats it.*")


def test_a_table_that_a_command_printed_in_a_box_is_taken() -> None:
    printed = "┏━━━━┳━━━━┓\n┃ at ┃  of ┃\n┃ ε  ┃ Veil ┃\n┡━━━━╇━━━━┩\n│  1 │ 64.0\xa0%\xa0± 1.9 │\n└────┴────┘\nWords."
    assert table_in(printed) == (["at ε", "of Veil"], "rr", [["1", "64.0 % ± 1.9"]])


@pytest.mark.parametrize("words", ["| Cora | 50.0 ± 3.0 |", "```text\nVeil has 50.0\xa0%\xa0± 3.0\n```"])
def test_measured_tables_and_printed_figures_that_are_not_stored_are_found(small: StoredResult, words: str) -> None:
    assert problems(f"Veil of revision 2:\n\n{words}" if "|" in words else words, {"small": small})
    assert problems("```json\n50.0 ± 3.0\n```", {"small": small}) == []


def test_a_new_revision_makes_a_page_false_until_it_is_written_again(
    small: StoredResult, raise_revision: Callable[[], None]
) -> None:
    results = {"small": small}
    page = written(MARKERS, results)
    assert problems(page, results) == []
    raise_revision()
    assert "measure again" in problems(page, results)[0]
    page = written(page, results)
    assert problems(page, results) == []
    now = METHODS["veil"].revision
    assert f"Veil had revision {now - 1}; the package has {now}." in page


def test_a_changed_figure_is_found(small: StoredResult) -> None:
    results = {"small": small}
    assert problems(written(MARKERS, results).replace("64.0", "84.0"), results)


@pytest.mark.parametrize("words", ["Veil reaches 64.0 % ± 1.9.", "Veil of revision 2 reached 50.0 ± 3.0 %.", "None."])
def test_a_figure_in_words_is_a_stored_one_or_names_its_revision(small: StoredResult, words: str) -> None:
    assert problems(words, {"small": small}) == []


def test_a_figure_in_words_that_no_result_has_is_found(small: StoredResult) -> None:
    assert "65.0 ± 1.9" in problems("Veil reaches 65.0 ± 1.9 %.", {"small": small})[0]


def test_words_may_quote_an_older_table_beside_it_alone(
    small: StoredResult, raise_revision: Callable[[], None]
) -> None:
    raise_revision()
    results: Mapping[str, StoredResult] = {"small": small}
    quoted = "Veil reaches 64.0 ± 1.9 %.\n\n"
    assert problems(quoted + written(MARKERS, results), results) == []
    assert problems(f"# One\n\n{quoted}\n# Two\n\n{written(MARKERS, results)}", results)


def test_a_new_result_needs_to_say_how_it_was_measured(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="give --command, --data, --device too"):
        take("small", TABLE, {}, folder=tmp_path)


def test_a_page_may_not_name_a_result_that_is_not_stored() -> None:
    with pytest.raises(RunError, match="no stored result 'small'"):
        written(MARKERS, {})


def test_the_list_names_every_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in stored_results() if name not in listed] == []
