"""What commands print about a campaign as JSON-ready values."""

from __future__ import annotations

from datetime import UTC, datetime

from veilgraph.campaign import Campaign
from veilgraph.campaign.acceptance import is_answered
from veilgraph.privacy.epsilon import json_epsilon, state_epsilon
from veilgraph.privacy.public_columns import public_document


def facts_of(campaign: Campaign) -> dict[str, object]:
    """Return the id, dates, notice and guarantee of a campaign."""
    return {
        "id": campaign.id,
        "closes": campaign.notice.document["closes"],
        "open": campaign.is_open(datetime.now(UTC)),
        "public": public_document(campaign.notice.public),
        "retention": campaign.notice.document["retention"],
        "notice": {"version": campaign.notice.version, "sha256": campaign.notice.sha256},
        "epsilon_user_level": json_epsilon(state_epsilon(campaign.guarantee.total_user_level)),
        "answered_under_page_limit": is_answered(campaign.guarantee),
        "guarantee": campaign.guarantee.as_dict(),
    }
