"""Documents for those who sign a collection off: a summary on one page, the consent text, the impact assessment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.collection.invitations import languages_of
from veilgraph.pages.campaign_summary import TEMPLATES, Template, render_summary

_NAMES: dict[Template, str] = {"page": "summary.{}.html", "consent": "consent.{}.md", "dpia": "impact-assessment.{}.md"}


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """The documents of one version of a notice.

    Attributes:
        written: documents that were written now.
        kept: drafts that were there, which a person may have completed.
    """

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def write_drafts(campaign: Campaign, folder: Path) -> Drafts:
    """Write all documents in all languages of a campaign, into a folder for each version of its notice.

    The summary is written anew, and in English, too, which alone compares the campaign with known deployments. A draft
    that is there stays: a person completes it.
    """
    written, kept = [], []
    for template in TEMPLATES:
        languages = languages_of(campaign)
        if template == "page" and "en" not in languages:
            languages = (*languages, "en")
        for language in languages:
            path = folder / f"notice-{campaign.notice.version}" / _NAMES[template].format(language)
            if template != "page" and path.exists():
                kept.append(path)
                continue
            write_atomically(path, render_summary(campaign, template=template, language=language), public=True)
            written.append(path)
    return Drafts(written=tuple(written), kept=tuple(kept))
