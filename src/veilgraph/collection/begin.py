"""The beginning of a collection: a folder with everything that the next commands need, whole or not at all."""

from __future__ import annotations

import csv
import io
import secrets
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import make_private_folder, write_atomically
from veilgraph.campaign import Campaign, CampaignBudget, Notice
from veilgraph.campaign.acceptance import PAGE_LIMIT, is_answered
from veilgraph.campaign.made_secrets import new_secret
from veilgraph.campaign.neighbours.next_wave import begin_series
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.campaign.tokens import new_key
from veilgraph.collection.folder import Collection
from veilgraph.collection.notice_file import first_texts, read_notice, write_notice
from veilgraph.collection.settings import Settings, write_settings
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, read_public
from veilgraph.graph.links import told_about_links
from veilgraph.graph.public_attributes import embedding_file
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.schema import FeatureSchema

_STEP = 0.01
"""Epsilons of rounds are multiples of it."""


def begin(folder: Path, settings: Settings, graph: Graph, *, plan: CampaignPlan | None = None) -> Collection:
    """Make the folder of a new collection, whole or not at all.

    Args:
        folder: the folder, which must not exist or must be empty.
        settings: what the owner decided.
        graph: people and links, which `settings.read_graph` returns.
        plan: mechanisms that spend the epsilon; default: all of it on the label.
    """
    check_free(folder)
    campaign = _campaign(settings, graph, plan)
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    try:
        _fill(draft, settings, graph, campaign)
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Collection.open(folder)


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something else, and one that cannot be made whole because a shell is in it."""
    if Path.cwd().is_relative_to(folder.resolve()):
        raise RunError(f"{folder} is where you are: give the name of a new folder, such as health")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and is no collection: choose another folder")


def check(settings: Settings, graph: Graph) -> None:
    """Refuse what cannot begin, before anything is planned."""
    _campaign(settings, graph, None)


def revise(collection: Collection) -> Campaign | None:
    """Take up what the owner changed in `notice.toml`; return the new version, or None if nothing changed.

    Everything that reports are bound to stays. A schema that was changed is refused.
    """
    campaign, schema = collection.campaign, FeatureSchema.load(collection.schema_file)
    if replace(schema, note="", texts={}) != replace(campaign.schema, note="", texts={}):
        raise CampaignError(
            f"{collection.schema_file} was changed, and reports are bound to its questions and answers: put it back, "
            "or begin another collection"
        )
    said = read_notice(collection.notice_file, zone=collection.settings.get("zone", "UTC"))
    notice, document = campaign.notice, collection.document
    if said.get("closes") == document.written.notice.closes:  # a scheduled round may have opened, which closes later
        del said["closes"]
    texts = {language: notice.texts.get(language) for language in said.get("texts", {})}
    now: dict[str, Any] = {name: getattr(notice, name) for name in said} | ({"texts": texts} if texts else {})
    if now == said:
        return None
    if said.get("closes", notice.closes) != notice.closes and said["closes"] <= datetime.now(UTC):
        raise CampaignError(
            f"closes in {collection.notice_file} is in the past: give a later day, or close the collection at once "
            f"with 'veilgraph close {collection.folder}'"
        )
    return document.revise(notice_file=collection.notice_file, **said).campaign


def _campaign(settings: Settings, graph: Graph, plan: CampaignPlan | None) -> Campaign:
    """Return the campaign; refuse one that the participant's page refuses."""
    campaign = _asked(settings, settings.read_schema(), graph, plan)
    if not is_answered(campaign.guarantee):
        raise RunError(
            f"the participant's page refuses a collection above an epsilon of {PAGE_LIMIT:g} (user level, any two "
            "records): ask for less"
        )
    return campaign


def _asked(settings: Settings, schema: FeatureSchema, graph: Graph, plan: CampaignPlan | None) -> Campaign:
    budget = settings.budget
    if budget.epsilon_x is None if budget is not None else plan is None or plan.draft.feature_mechanism is None:
        schema = schema.label_alone
    first = first_texts(schema, settings.question, purpose=settings.purpose, contact=settings.contact)
    schema = replace(schema, texts={settings.languages[0]: first} | dict(schema.texts))
    read_public(schema.public, settings.people, graph)  # refused before anything is written
    notice = Notice(
        purpose=settings.purpose, contact=settings.contact, closes=settings.closing, retention=settings.deletion
    )
    if plan is not None:
        made = plan.campaign(notice)
        public = (*schema.public, *told_about_links(graph.links))
        return replace(made, notice=replace(made.notice, texts=schema.texts, public=public))
    asked: dict[str, Any] = {"schema": schema, "label": settings.question, "notice": notice}
    if budget is None and settings.rounds is not None:
        return _of_rounds(asked | {"graph": graph}, settings.rounds, settings.epsilon)
    asked["budget"] = budget or CampaignBudget(epsilon_y=settings.epsilon)
    if settings.contacts is None:
        return Campaign.new(graph=graph, **asked)
    return begin_series(people=graph, followed_by="lists" if settings.contacts == "list" else "waves", **asked)


def _of_rounds(asked: dict[str, Any], rounds: int, epsilon: float) -> Campaign:
    """Return the campaign of several rounds whose total over any two histories is the largest within an epsilon."""

    def at(steps: int) -> Campaign:
        return Campaign.new(**asked, budget=CampaignBudget(epsilon_y=steps * _STEP, rounds=RoundBudget(rounds=rounds)))

    def fits(steps: int) -> bool:
        return at(steps).guarantee.total_user_level <= epsilon

    low, high = 0, 1  # steps that fit, and steps that do not
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        raise RunError(f"an epsilon of {epsilon:g} is too little for {rounds} rounds: ask fewer times, or give more")
    return at(low)


def _fill(draft: Path, settings: Settings, graph: Graph, campaign: Campaign) -> None:
    """Write all files of a collection into an empty folder."""
    make_private_folder(draft)
    collection = Collection(draft)
    people, links = draft / f"people{'.csv' if settings.people is None else settings.people.suffix}", None
    if settings.people is None:
        write_atomically(people, _ids(graph))
    else:
        write_atomically(people, settings.people.read_bytes())
        for column in campaign.schema.public:
            if (embedding := embedding_file(settings.people, column.name)) is not None:
                write_atomically(draft / embedding.name, embedding.read_bytes())
    if settings.links is None:
        write_atomically(collection.ids_file, _ids(graph))
    else:
        links = draft / f"links{settings.links.suffix}"
        write_atomically(links, settings.links.read_bytes())
    replace(campaign.schema, texts={}).save(collection.schema_file)
    write_atomically(collection.keys_file, new_key() + "\n")
    write_atomically(collection.admin_token_file, new_secret("owner") + "\n")
    write_notice(collection.notice_file, campaign, settings.languages)
    write_settings(collection.settings_file, settings, people=people.name, links=None if links is None else links.name)
    write_atomically(collection.campaign_file, campaign.to_json() + "\n", public=True)


def _ids(graph: Graph) -> str:
    """Return a table of ids alone, as an edge table names them: cells for a spreadsheet would have other names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["id"], *([name] for name in graph.names)])
    return text.getvalue()
