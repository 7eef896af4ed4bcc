"""What a person sees first: who asks and why, one figure about privacy, the questions, and little more."""

from __future__ import annotations

import pytest

from tests.client.test_languages import TABLES, prefer
from tests.support.campaigns import campaign
from tests.support.chromium import NEEDS_CHROMIUM, Page
from tests.support.participant_page import CHECK, INVITATION, click, ready, serving
from veilgraph.privacy.schema import Column, FeatureSchema

pytestmark = NEEDS_CHROMIUM

FIVE_QUESTIONS = campaign(
    FeatureSchema(
        columns=(
            Column(name="age", edges=(0, 30, 50, 120)),
            Column(name="smokes", values=("no", "yes")),
            Column(name="district", values=("North", "South", "East", "West", "Harbour", "Old Town", "Hills")),
            Column(name="sport", values=("never", "sometimes", "every week", "daily")),
        ),
        classes=("well", "ill", "unsure"),
    ),
    epsilon_x=0.5,
    sampled=1,
    epsilon_y=1.0,
    label="health",
    purpose="We want to learn how health spreads in our town, to plan the visits of the district nurses next year.",
)
FILL = """
document.getElementById("q0").value = "41.5";
for (const name of ["q1", "q3", "q4"]) document.querySelectorAll(`input[name=${name}]`)[1].click();
document.getElementById("q2").value = "skip";
"""


@pytest.mark.parametrize("tag", TABLES)
@pytest.mark.parametrize("address", [INVITATION, ""], ids=["link", "typed"])
def test_five_questions_take_at_most_2000_pixels_of_a_phone(page: Page, tag: str, address: str) -> None:
    with serving(FIVE_QUESTIONS.to_json()) as collector:
        prefer(page, tag)
        ready(page, collector.url + address, width=390)
        assert page.run("document.documentElement.scrollHeight") <= 2000
        assert page.run("document.documentElement.scrollWidth") == 390


def test_who_asks_stands_before_privacy_and_the_questions_and_the_rest_is_closed(page: Page) -> None:
    with serving(FIVE_QUESTIONS.to_json()) as collector:
        ready(page, collector.url + INVITATION, width=390)
        seen = page.run(
            "[...document.querySelectorAll('main > *')].filter(e => e.offsetHeight && e.innerText.trim())"
            ".map(e => e.id)"
        )
        assert seen == ["", "organisers", "guarantee", "form", "withdraw-part"]
        assert page.run("document.querySelectorAll('details[open]').length") == 0


def test_privacy_points_and_what_is_final_appear_at_the_draw(page: Page) -> None:
    with serving(FIVE_QUESTIONS.to_json()) as collector:
        ready(page, collector.url + INVITATION, width=390)
        assert page.run("document.querySelector('#more #points') !== null")
        page.run(FILL + CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert page.run("document.querySelector('#checking #points').checkVisibility()")
        said = page.run("document.getElementById('checking').innerText")
        assert "chance cannot change your answers a second time" in said
        assert "You can check before sending, but not change them." in said
        assert (
            page.run("Object.keys(localStorage).filter((key) => key.includes('sent') || /[0-9a-f]{64}/.test(key))")
            == []
        )


def test_the_check_shows_every_answer_and_lets_the_person_change_one(page: Page) -> None:
    with serving(FIVE_QUESTIONS.to_json()) as collector:
        ready(page, collector.url + INVITATION, width=390)
        page.run(FILL + CHECK)
        page.until("!document.getElementById('checking').hidden")
        rows = "[...document.querySelectorAll('#entered tr')].map(r => [...r.children].map(c => c.textContent))"
        assert page.run(rows) == [
            ["age", "41.5"],
            ["smokes", "yes"],
            ["district", "no answer"],
            ["sport", "sometimes"],
            ["health", "ill"],
        ]
        click(page, "change")
        assert page.run("document.activeElement.id") == "form-heading"
        assert page.run("document.getElementById('q0').value") == "41.5", "the answers were lost"
        page.run("document.querySelectorAll('input[name=q4]')[0].click();" + CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert page.run(rows)[-1] == ["health", "well"]
        assert collector.asked == [], "the collector was asked before the draw"
        assert page.complaints == []
