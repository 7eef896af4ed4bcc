"""A small series about private neighbours in a store: everybody answers every wave, three quarters report a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.neighbour_series import CLASSES, CLOSES, first_document
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import PeopleFile
from veilgraph.campaign.neighbours.series import read_table_file
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report
from veilgraph.campaign.series_folder import wave_path
from veilgraph.collector.store import ReportStore
from veilgraph.deploy.publish_wave import publish_wave
from veilgraph.graph import Graph
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import GRR, NeighbourMechanism, RandomizedNeighbourList

SIZE = 240
NAMES = PeopleFile.of(f"p{i:03}" for i in range(SIZE)).names  # in the order of rows
PEOPLE = Graph.without_edges(SIZE, node_ids=sorted(NAMES))  # in the order of their table
EPSILON_Y = 4.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series in a store, with what only the laboratory knows."""

    folder: Path
    documents: tuple[Campaign, ...]
    truth: dict[str, str]
    lists: tuple[tuple[int, ...], ...]
    classes: tuple[str, ...] = CLASSES

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder / 'reports.db'}"

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    @property
    def files(self) -> list[Path]:
        return [self.folder / f"document-{number}.json" for number in range(len(self.documents))]


def as_collection(series: Series, contacts: str) -> Path:
    """Make the folder of a series the folder of a collection, as `veilgraph init` and `open-round` do; return it."""
    folder, waves = series.folder, series.folder / "waves"
    (folder / "campaign.json").write_text(series.documents[0].to_json())
    (folder / "ids.csv").write_text((folder / "people.csv").read_text())
    (folder / "settings.toml").write_text(f'contacts = "{contacts}"\n')
    if series.tables.exists():
        series.tables.rename(waves)
        for number, wave in enumerate(series.documents[1:], start=1):
            wave_path(waves, number).write_text(wave.to_json())
    return folder


def true_lists(seed: int = 0) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    """Return the class and the neighbours of each person; most neighbours are of the same class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(SIZE) % 3
    chances = np.where(labels[:, None] == labels, 0.15, 0.01)
    np.fill_diagonal(chances, 0)
    return labels, tuple(tuple(np.flatnonzero(row).tolist()) for row in rng.random((SIZE, SIZE)) < chances)


def _said(
    answer: NeighbourMechanism, lists: tuple[tuple[int, ...], ...], published: bytes | None, rng: np.random.Generator
) -> Sequence[tuple[int, ...] | str]:
    """Return the answers of all people, as reports have them."""
    if isinstance(answer, RandomizedNeighbourList):
        listed = np.zeros((SIZE, SIZE), dtype=np.int64)
        for row, neighbours in zip(listed, lists, strict=True):
            row[list(neighbours)] = 1
        return answer.decode(answer.randomize(listed, rng=rng))
    assert published is not None
    rows = answer.randomize(BeliefTable.from_bytes(published).sums(lists), rng=rng)
    return list(map(tuple, answer.decode(rows)))


def _as_json(answer: tuple[int, ...] | str) -> list[int] | str:
    return answer if isinstance(answer, str) else list(answer)


def collected(
    folder: Path, answers: list[NeighbourMechanism], *, epsilon_y: float = EPSILON_Y, turns: int | None = None
) -> Series:
    """Collect a series in a store: labels, then each wave, with its table published by the command's function."""
    labels, lists = true_lists()
    rng = np.random.default_rng(1)
    first = first_document(PEOPLE, epsilon_y=epsilon_y)
    store = ReportStore.open(f"sqlite:///{folder / 'reports.db'}")
    store.documents.register(first, now=0.0)
    drawn = GRR(3, epsilon_y).randomize(labels, rng=rng).tolist()
    reporting = [i for i in range(SIZE) if i % 4]
    store.reports.put(
        [Report(campaign=first.id, node=NAMES[i], features=None, label=drawn[i]) for i in reporting], now=0.0
    )
    documents = [first]
    (folder / "document-0.json").write_text(first.to_json())
    (folder / "people.csv").write_text("id\n" + "".join(f"{name}\n" for name in PEOPLE.names))
    url, tables = f"sqlite:///{folder / 'reports.db'}", folder / "tables"
    for number, answer in enumerate(answers, start=1):
        path = folder / f"document-{number}.json"
        said_first = turns if number == 1 else None
        following = NextWave(answer=answer, closes=CLOSES, turns=said_first)
        wave, _ = publish_wave(url, documents[-1], PEOPLE, following, tables=tables, out=path)
        store.documents.register(wave, now=0.0)
        asked = series_of(wave.asked)
        said = _said(answer, lists, read_table_file(tables, asked, people=SIZE), rng)
        reports = [
            Report.parse({"campaign": wave.id, "node": NAMES[i], "answer": _as_json(said[i])}, wave)
            for i in range(SIZE)
            if wave.asked.documents.is_asked(NAMES[i])
        ]
        store.reports.put(reports, now=0.0)
        documents.append(wave)
    store.close()
    truth = {name: CLASSES[label] for name, label in zip(NAMES, labels.tolist(), strict=True)}
    return Series(folder=folder, documents=tuple(documents), truth=truth, lists=lists)
