"""The page of a model card: complete, offline, and honest about what is missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.collected import Collected
from tests.support.parsed_page import Page, self_contained
from tests.support.trained import train_files
from veilgraph.deploy import read_card
from veilgraph.pages.model_card import curve_sentences, headline, render_card_page, summary


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    collected = Collected(tmp_path_factory.mktemp("collected"), features=0)
    train_files(collected.store, out=collected.folder / "model", device="cpu", **collected.files())
    return read_card(collected.folder / "model")


def test_the_page_has_every_section_and_needs_no_network(content: dict[str, Any]) -> None:
    text = render_card_page(content)
    page = self_contained(text, captions=False)  # each table stands below a heading
    assert "@media print" in text
    assert "prefers-color-scheme:dark" in text
    headings = [attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    sections = "collected shares accuracy calibration classes sets curve uncertain method"
    assert headings == sections.split()
    assert sum(tag == "svg" for tag, _ in page.tags) == 5
    assert all(words in page.text for words in (*content["guarantee_in_words"], *content["campaign"]["classes"]))


def test_the_card_of_private_neighbours_calls_no_edge_public(content: dict[str, Any]) -> None:
    private = copy.deepcopy(content)
    private["guarantee"]["neighbours"] = {"waves": 2}
    private["reports"]["total"] = private["reports"]["label"] + 1234
    text = Page(render_card_page(private)).text
    assert "nobody else knows their neighbours" in text
    assert "1,234" in text
    assert "public" not in text.replace("published", "").lower()
    assert "Edges are taken as public" in Page(render_card_page(content)).text


def test_the_page_claims_nothing_about_people_of_whom_nothing_is_known(content: dict[str, Any]) -> None:
    isolated = copy.deepcopy(content)
    isolated["sets"]["unknown"] = 20
    for given, said in ((content, False), (isolated, True)):
        text = Page(render_card_page(given)).text
        assert "of the people who reported have a set with one class" in text
        assert ("Of 20 people nothing is known, as no path of links joins them to a report" in text) == said


def test_texts_of_a_campaign_are_escaped(content: dict[str, Any]) -> None:
    forged = copy.deepcopy(content)
    forged["campaign"]["purpose"] = "<script>alert(1)</script>"
    forged["shares"]["shares"][0]["name"] = forged["by_class"][0]["name"] = forged["campaign"]["classes"][0] = "<b>"
    assert "<script" not in render_card_page(forged)
    assert "<b>" not in render_card_page(forged)


def test_a_card_without_estimates_says_why_and_what_to_do(content: dict[str, Any]) -> None:
    bare = copy.deepcopy(content) | {"method": "rgnn", "judged_by": None, "certain": None, "calibration": None}
    bare |= {"by_class": None, "sets": None, "learning_curve": None, "uncertain": None, "shares": None}
    bare["accuracy"] = dict.fromkeys(content["accuracy"])
    page = Page(render_card_page(bare))
    assert "could not be estimated" in headline(bare)
    assert "cannot predict a person without their own report" in summary(bare)[0]
    assert "--set hold_out=0.2" in summary(bare)[0]
    assert [attributes["id"] for tag, attributes in page.tags if tag == "h2"] == ["collected", "method"]


def test_a_card_of_several_processes_names_the_shards_and_blames_no_method(content: dict[str, Any]) -> None:
    shared = copy.deepcopy(content) | dict.fromkeys(("judged_by", "certain", "calibration", "by_class", "sets"))
    shared["shares"] = None
    shared |= dict.fromkeys(("learning_curve", "uncertain")) | {"accuracy": dict.fromkeys(content["accuracy"])}
    shared["reports"] |= {"total": 0, "sha256": None, "shards": "5" * 64}
    text = Page(render_card_page(shared)).text
    assert "SHA-256 of the shards" in text
    assert "5" * 64 in text
    assert "No process held all reports" in text
    assert "cannot predict" not in text
    assert "--set hold_out=0.2" in text


def test_probabilities_outside_the_interval_are_called_too_sure(content: dict[str, Any]) -> None:
    sure = copy.deepcopy(content)
    sure["accuracy"]["stated"] = min(1.0, sure["accuracy"]["model"]["high"] + 1e-6)
    sure["accuracy"]["model"]["high"] -= 1e-6
    assert "too sure" in summary(sure)[-1]
    sure["accuracy"]["stated"] = sure["accuracy"]["model"]["value"]
    assert "too sure" not in " ".join(summary(sure))


def test_withdrawals_are_on_the_page(content: dict[str, Any]) -> None:
    assert "withdrew" not in Page(render_card_page(content)).text
    assert "3 people withdrew" in Page(render_card_page(content | {"withdrawn_since": 3})).text
    assert "not counted" in Page(render_card_page(content | {"withdrawn_since": None})).text


def test_the_curve_says_what_it_brought_and_what_a_hundred_more_would_bring(content: dict[str, Any]) -> None:
    points = content["learning_curve"]["points"]
    gain = points[1]["gain"]["value"]
    assert f"{100 * gain:+.1f}".replace("-", "−") in curve_sentences(content)[0]
    assert "Another hundred reports would bring" in curve_sentences(content)[1]
