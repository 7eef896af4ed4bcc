"""Invitations: a link for each person, texts for letters and reminders, and printable sheets with QR codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

import segno
from jinja2 import Environment, StrictUndefined

from veilgraph.atomic_files import make_private_folder, write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import check_node
from veilgraph.campaign.tokens import read_keys, token_for
from veilgraph.collection.folder import Collection
from veilgraph.errors import RunError
from veilgraph.graph import read_ids
from veilgraph.graph.io import read_table
from veilgraph.graph.text_tables import write_text_table
from veilgraph.progress import Progress, no_progress

_WORDS = "invitation_words.json"
_SHEET = "invitation_sheet.html"
_RIGHT_TO_LEFT = ("ar", "fa", "he", "ur")


class Invited(NamedTuple):
    """A person who is invited.

    Attributes:
        node: the person's id.
        token: the person's code, which a program sends a report with. Secret.
        link: link to the participant's page, with the person's code. Secret.
        row: other columns of the table of people.
    """

    node: str
    token: str
    link: str
    row: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Written:
    """The files of invitations.

    Attributes:
        people: number of people.
        table: links of all of them.
        sheets: printable sheets.
        texts: text of invitation and reminder in each language.
    """

    people: int
    table: Path
    sheets: Path
    texts: Mapping[str, Path]


def page_link(address: str, node: str, token: str) -> str:
    """Return the link to a person's page. Browsers do not send the part after #, so no server's log has the token.

    >>> page_link("https://survey.example.org", "u 1", "t0ken")
    'https://survey.example.org/#node=u%201&token=t0ken'
    """
    return f"{address.rstrip('/')}/#node={quote(node, safe='')}&token={token}"


def check_address(address: str) -> str:
    """Return the address of a collector; refuse one to which a browser would send the token unencrypted."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname and not (parts.query or parts.fragment):
        return address
    if parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return address
    raise RunError(f"the address is {address!a}: give the https address under which people reach the collector")


@dataclass(frozen=True, kw_only=True)
class Guests:
    """Who is invited to which campaign, and where their links are written.

    Attributes:
        campaign: the document that is open now.
        keys_file: file of the keys, of which the first signs.
        tables: tables of people, each with a column `id`.
        folder: folder of links, texts and sheets.
        zone: time zone in which people are told until when they can answer.
    """

    campaign: Campaign
    keys_file: Path
    tables: tuple[Path, ...]
    folder: Path
    zone: str = "UTC"

    @classmethod
    def of(cls, collection: Collection) -> Guests:
        """Return everybody whom a collection asks, also who joined later."""
        joined = (collection.optional.joined,) if collection.optional.joined.is_file() else ()
        return cls(
            campaign=collection.campaign,
            keys_file=collection.keys_file,
            tables=(collection.people_file, *joined),
            folder=collection.folder / "invitations",
            zone=str(collection.settings.get("zone", "UTC")),
        )

    @property
    def closes(self) -> str:
        """Time until which people can answer, in their zone.

        The last second of a minute stands for the whole minute.
        """
        return f"{self.campaign.notice.closes.astimezone(ZoneInfo(self.zone)):%Y-%m-%d %H:%M} ({self.zone})"

    @property
    def names(self) -> list[str]:
        """Ids of the people."""
        return [node for table in self.tables for node in read_ids(table)]

    def invited(self, address: str) -> list[Invited]:
        """Return everybody in the tables of people, with the other columns of the tables."""
        key = read_keys(self.keys_file)[0]
        return [person for table in self.tables for person in _invited(table, self.campaign, key, address)]


def invite(
    guests: Guests,
    address: str,
    *,
    only: Iterable[str] | None = None,
    name: str = "links",
    progress: Progress = no_progress,
) -> Written:
    """Write links, texts and sheets.

    Args:
        guests: who is invited.
        address: address under which people reach the collector.
        only: ids of the people to write to; default: everybody who may report.
        name: name of the table, and of the sheets.
        progress: called with the step, the number of finished sheets, and of all.
    """
    check_address(address)
    wanted = None if only is None else set(only)
    people = [person for person in guests.invited(address) if wanted is None or person.node in wanted]
    folder, campaign = guests.folder, guests.campaign
    make_private_folder(folder)
    columns = list(dict.fromkeys(column for person in people for column in person.row))
    rows = [(each.node, each.token, each.link, *(each.row.get(name, "") for name in columns)) for each in people]
    write_atomically(folder / f"{name}.csv", write_text_table(["id", "token", "link", *columns], rows))
    texts = {}
    for language in languages_of(campaign):
        texts[language] = folder / f"text.{language}.txt"
        write_atomically(texts[language], letter(campaign, language, closes=guests.closes))
    write_atomically(folder / f"{name}.html", sheets(campaign, people, closes=guests.closes, progress=progress))
    return Written(people=len(people), table=folder / f"{name}.csv", sheets=folder / f"{name}.html", texts=texts)


def languages_of(campaign: Campaign) -> tuple[str, ...]:
    """Return the languages of a campaign's texts, the first one first; English if there are none."""
    return tuple(campaign.schema.texts) or ("en",)


def letter(campaign: Campaign, language: str, *, closes: str) -> str:
    """Return the text of an invitation and of a reminder. LINK stands for each person's own link."""
    words, said = words_of(language), campaign.schema.texts.get(language, {})
    facts = {
        "purpose": said.get("purpose", campaign.notice.purpose),
        "contact": said.get("contact", campaign.notice.contact),
        "closes": closes,
    }
    parts = (part for key in ("invitation", "reminder") for part in (words[key]["subject"], words[key]["text"]))
    return "\n\n".join(part.format(**facts) for part in parts) + "\n"


def sheets(campaign: Campaign, people: Sequence[Invited], *, closes: str, progress: Progress = no_progress) -> str:
    """Return a page to print: a card for each person, with their link as a QR code."""
    first = languages_of(campaign)[0]
    known = set(languages_of(campaign))
    cards = []
    for done, person in enumerate(people, start=1):
        language = person.row.get("language", first)
        language = language if language in known else first
        said = campaign.schema.texts.get(language, {})
        cards.append(
            {
                "person": person,
                "language": language,
                "direction": "rtl" if language.partition("-")[0] in _RIGHT_TO_LEFT else "ltr",
                "words": words_of(language)["sheet"],
                "purpose": said.get("purpose", campaign.notice.purpose),
                "contact": said.get("contact", campaign.notice.contact),
                "code": qr_code(person.link),
            }
        )
        progress("sheets", done, len(people))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = resources.files(__package__).joinpath(_SHEET).read_text(encoding="utf-8")
    return environment.from_string(template).render(cards=cards, closes=closes, language=first)


def qr_code(text: str) -> str:
    """Return a QR code as an SVG element; a camera reads it with 15 % of it spoilt (level M)."""
    drawn = io.BytesIO()
    # Readers take every mask. To look for the most even one of eight takes four times as long, for thousands of people.
    code = segno.make(text, micro=False, error="m", boost_error=False, mask=3)
    code.save(drawn, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=2)
    return drawn.getvalue().decode()


@cache
def _all_words() -> dict[str, Any]:
    text = resources.files(__package__).joinpath(_WORDS).read_text(encoding="utf-8")
    words: dict[str, Any] = json.loads(text)
    return words


def words_of(language: str) -> dict[str, Any]:
    """Return the words of invitations in a language, in English where they are not translated."""
    found: dict[str, Any] = _all_words().get(language.partition("-")[0], _all_words()["en"])
    return found


def _invited(people: Path, campaign: Campaign, key: str, address: str) -> Iterator[Invited]:
    table = read_table(people).fillna("")
    columns = [str(name) for name in table.columns if name not in ("id", "token", "link")]
    rows = zip(*(map(str, table[name]) for name in columns), strict=True) if columns else repeat(())
    for name, row in zip(read_ids(people), rows, strict=False):  # `repeat` does not end
        node = check_node(name)
        token = token_for(key, campaign.series, node)
        yield Invited(node, token, page_link(address, node, token), dict(zip(columns, row, strict=True)))
