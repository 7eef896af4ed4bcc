"""Assessment of a running collection: is it enough yet?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph, perturbed_graph
from veilgraph.campaign.assessment import Assessment
from veilgraph.deploy.fit_collected import default_method, fit_reports, method_for_campaign
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.publish_wave import read_collection
from veilgraph.deploy.stored_reports import stored_reports
from veilgraph.graph import Graph
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.privacy.estimate import Estimate
from veilgraph.progress import Watch, unwatched


def assess_collection(
    store: str,
    campaign: Campaign,
    graph: Graph,
    *,
    now: datetime,
    seed: int = 0,
    tables: Path | None = None,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    watch: Watch = unwatched,
) -> Assessment:
    """Train on the reports of a store in memory, and estimate the accuracy from reports that predictions did not use.

    The same method is trained on a random half of the people too. Nothing but the estimates is kept.

    Args:
        store: URL of the store.
        campaign: the campaign.
        graph: its public graph.
        now: time of the assessment.
        seed: seed of the fit and of the half.
        tables: folder of the published tables of a series about private neighbours.
        device: "auto", "cpu" or "cuda".
        memory: limit of a fit, in bytes.
        watch: shows the progress.
    """
    public = check_graph(campaign, graph)
    method = method_for_campaign(default_method(campaign), campaign, public, seed=seed, device=device)
    if campaign.neighbours is not None:
        _, perturbed = read_collection(store, campaign, graph, tables, watch=watch)
    else:
        with stored_reports(store, campaign, watch=watch) as reports:
            perturbed = perturbed_graph(campaign, graph, reports)
    with watch("train"):
        model = fit_reports(campaign, perturbed, method, seed=seed, memory=memory)
    card = make_card(model, perturbed, shares=(1 / 2,), memory=memory, watch=watch).content
    curve = card["learning_curve"]["points"]
    return Assessment(
        campaign=campaign.id,
        computed=now.replace(microsecond=0),
        method=method.name,
        label_reports=int(perturbed.has_label.sum()),
        accuracy=_estimate(card["accuracy"]["model"]),
        control=_estimate(card["accuracy"]["control"]),
        floor=_estimate(card["accuracy"]["floor"]),
        second_half=_estimate(curve[0]["gain"]) if len(curve) > 1 else None,
    )


def _estimate(found: Mapping[str, Any] | None) -> Estimate | None:
    """Return the estimate of a card; None if it comes from no report."""
    estimate = None if found is None else Estimate.parse(found)
    return estimate if estimate is not None and estimate.reports else None
