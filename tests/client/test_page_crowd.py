"""Many phones behind one address all get a complete page; one whose files fail says so in its own words."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.chromium import NEEDS_CHROMIUM, chromium
from tests.support.collection import Collection
from tests.support.participant_page import CAMPAIGN, serving
from tests.support.running_collector import collector_of, listening
from veilgraph.collector.participant_page import participant_page
from veilgraph.collector.store import ReportStore

pytestmark = NEEDS_CHROMIUM

COLLECTION = Collection.ring(50)
PHONES = 40
REQUESTS = "performance.getEntriesByType('resource').length + 1"


def test_40_phones_behind_one_address_all_get_a_complete_page(tmp_path: Path) -> None:
    """With the collector's own limits: 50 requests in a second, 200 at once."""
    app = collector_of(
        campaign=COLLECTION.campaign,
        graph=COLLECTION.graph,
        store=ReportStore.open(f"sqlite:///{tmp_path}/reports.db"),
        credentials=COLLECTION.credentials,
    )
    with listening(app) as client, chromium() as page:
        phones = []
        for number in range(PHONES):
            token = COLLECTION.token(f"n{number}")
            page.new_phone(f"{client.base_url}/#node=n{number}&token={token}")
            phones.append(page.session)
        for phone in phones:
            page.switch(phone)
            page.until("!document.getElementById('form').hidden", timeout=60)
            assert page.run("document.getElementById('incomplete').hidden")
            # The page, its style sheet, its script, the words of a language, the campaign.
            assert page.run(REQUESTS) <= 6
        assert page.complaints == []


@pytest.mark.parametrize("missing", ["/participant.*.js", "*.css", "/languages/en.json"])
def test_a_page_whose_files_fail_says_so_in_every_language(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (path for path in participant_page() if fnmatch(path, missing))
    with serving(CAMPAIGN.to_json()) as collector, chromium() as page:
        monkeypatch.delitem(participant_page(), path)
        page.open(collector.url)
        if missing == "*.css":
            page.until("!document.getElementById('form').hidden")
            return
        page.until("getComputedStyle(document.getElementById('incomplete')).visibility === 'visible'")
        said = page.run("document.getElementById('incomplete').innerText")
        assert "Please load it again later. Nothing was sent." in said
        assert "Es wurde nichts gesendet." in said
