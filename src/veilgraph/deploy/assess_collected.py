"""Assessment of a running collection: is it enough yet?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from veilgraph.campaign.assessment import Assessment
from veilgraph.deploy.group_shares import GroupShares
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.sources import GivenReports, Source
from veilgraph.deploy.training import train
from veilgraph.deploy.training_options import TrainingOptions
from veilgraph.privacy.estimate import Estimate
from veilgraph.progress import Watch, unwatched


def assess_collection(
    source: Source, options: TrainingOptions, *, now: datetime, watch: Watch = unwatched
) -> Assessment:
    """Train on the reports of a source in memory, and estimate the accuracy from reports that predictions did not use.

    The same method is trained on a random half of the people too. Nothing but the estimates is kept.

    Args:
        source: source of the reports.
        options: options of the training.
        now: time of the assessment.
        watch: shows the progress.
    """
    perturbed = source.read(watch=watch).perturbed
    model = train(GivenReports(campaign=source.campaign, perturbed=perturbed), options, watch=watch)
    card = make_card(model, perturbed, shares=(1 / 2,), memory=options.memory, watch=watch).content
    curve = card["learning_curve"]["points"]
    return Assessment(
        campaign=source.campaign.id,
        computed=now.replace(microsecond=0),
        method=model.facts["method"],
        label_reports=int(perturbed.has_label.sum()),
        accuracy=_estimate(card["accuracy"]["model"]),
        control=_estimate(card["accuracy"]["control"]),
        floor=_estimate(card["accuracy"]["floor"]),
        second_half=_estimate(curve[0]["gain"]) if len(curve) > 1 else None,
        features=_estimate(card["accuracy"]["features"]),
        next_hundred=_estimate(card["learning_curve"]["next_hundred"]),
        contamination=(card["contamination"] or {}).get("sentence"),
        shares={share.name: share.estimate for share in GroupShares.parse(card["shares"]).shares},
    )


def _estimate(found: Mapping[str, Any] | None) -> Estimate | None:
    """Return the estimate of a card; None if it comes from no report."""
    estimate = None if found is None else Estimate.parse(found)
    return estimate if estimate is not None and estimate.reports else None
