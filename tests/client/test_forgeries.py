"""One list of forged campaigns, which the package, the Python client and the browser refuse, each by its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser_module import in_node, needs_node
from tests.support.device import Untouchable, ask
from tests.support.forged_campaigns import FORGED, HONEST
from veilgraph.campaign import Campaign
from veilgraph.errors import CampaignError


def test_the_package_refuses_every_forged_campaign_in_one_line() -> None:
    for name, text in FORGED.items():
        with pytest.raises(CampaignError) as caught:
            pytest.fail(f"{name} was read as {Campaign.from_json(text)}")
        assert str(caught.value).isprintable(), name


def test_the_client_refuses_every_forged_campaign_before_the_record_is_touched(tmp_path: Path) -> None:
    for name, text in FORGED.items():
        with pytest.raises(CampaignError):
            pytest.fail(f"{name} was answered by {ask(text, tmp_path, Untouchable(), max_epsilon=1e6)}")
        assert list(tmp_path.iterdir()) == [], name


@needs_node
def test_the_browser_refuses_every_forged_campaign_and_accepts_what_was_forged() -> None:
    replies = in_node("verify", [*FORGED.values(), *(each.to_json() for each in HONEST.values())])
    accepted = [name for name, reply in zip([*FORGED, *HONEST], replies, strict=True) if "error" not in reply]
    assert accepted == list(HONEST)
