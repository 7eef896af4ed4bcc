"""The folder of a small collection: 60 people in a ring, of whom three have no link."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veilgraph.collection import Collection, Settings, begin

PEOPLE, ALONE = 60, 3
NAMES = [f"{name}-{number}" for number, name in enumerate(["anna", "Олег", "李", "محمد"] * (PEOPLE // 4))]
QUESTION = "Have you had the flu?"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def write_tables(folder: Path) -> dict[str, Path]:
    """Write the tables that an owner brings, as an office saves them; return their paths by option."""
    people, links = folder / "people.csv", folder / "links.csv"
    rows = "".join(f"{name};{language}\n" for name, language in zip(NAMES, ["en", "de"] * (PEOPLE // 2), strict=True))
    people.write_text("id;language\n" + rows, encoding="utf-8-sig")
    ring = NAMES[: PEOPLE - ALONE]
    pairs = zip(ring, [*ring[1:], ring[0]], strict=True)
    links.write_text("one;other\n" + "".join(f"{u};{v}\n" for u, v in pairs), encoding="utf-8-sig")
    return {"people": people, "links": links}


def settings(folder: Path, **changes: Any) -> Settings:
    """Return what the owner of the small collection decided."""
    given: dict[str, Any] = {
        **write_tables(folder),
        "question": QUESTION,
        "answers": ("no", "yes"),
        "purpose": "Learn whom the flu reaches",
        "contact": "flu@example.org",
        "closes": "2100-01-31",
        "now": NOW,
    }
    return Settings.make(given | changes)


def begun(folder: Path, **changes: Any) -> Collection:
    """Begin the small collection in `folder / "health"`, in which no variable names a database."""
    decided = settings(folder, **changes)
    return Collection(begin(folder / "health", decided, decided.read_graph()).folder, environment={})
