"""A model that was trained on a campaign's reports, and its folder.

The folder holds the method (`model.json`, `weights.npz`), the campaign (`campaign.json`), the reports of the training
(`reports.jsonl`: randomized, as they left the devices), the order of the nodes (`nodes.json`; a fit in several
processes writes none) and a description of the training (`training.json`), with a manifest: the digest of every file.
That of a series about private neighbours also holds its documents and its published tables (`series.json`).
A fit of several processes on shards keeps neither reports nor probabilities: predictions read the shards again.
A card may stand beside them: `card.json`, `card.html`, and `people.csv`, which names people.
Until the training is finished, it holds the state of the fit (`checkpoint.npz`) and drafts of these files. No file
contains code. Who reads the folder learns the graph's node names, and of each person what their report reveals.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import is_draft, write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import ROUNDS, perturbed_graph
from veilgraph.campaign.neighbours.collection import NeighbourCollection
from veilgraph.campaign.report import Report, parse_report
from veilgraph.errors import ReportError, RunError, VeilgraphError
from veilgraph.graph import Graph, PerturbedGraph, read_public
from veilgraph.models import Method
from veilgraph.models.registry import METHODS
from veilgraph.models.saved_state import DOCUMENT, WEIGHTS, conforms, digest_of_document, read_object

CHECKPOINT = "checkpoint.npz"
VIEWS = "checkpoint"
"""Folder of the views of an interrupted fit of Veil on shards."""

REPORTS = "reports.jsonl"
CARD, CARD_PAGE, PEOPLE = "card.json", "card.html", "people.csv"
_TRAINING = "training.json"
_CAMPAIGN = "campaign.json"
_NODES = "nodes.json"
_SERIES = "series.json"
_FILES = (DOCUMENT, WEIGHTS, _CAMPAIGN, REPORTS)
_MANIFEST = "manifest"
_SHARDS = "shards"
_REMEDY = "copy the folder again, or train again"


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A fitted method with the campaign and the reports that it was trained on.

    Attributes:
        method: the fitted method.
        campaign: the campaign of the reports.
        facts: description of the training, JSON-ready.
        report_lines: returns the reports of the training as JSON, one line each.
        nodes: names of the nodes in the order of the training; None if they were not kept.
        collection: documents and tables of a series about private neighbours; None for all other campaigns.
        people: table of the people as it is now, for public columns; None if it was not given.
    """

    method: Method
    campaign: Campaign
    facts: dict[str, Any]
    report_lines: Callable[[], Iterable[str]] = field(repr=False)
    nodes: tuple[str, ...] | None = field(default=None, repr=False)
    collection: NeighbourCollection | None = None
    people: Path | None = None

    def save(self, folder: Path) -> Model:
        """Write the folder, over an older model if there is one, and return the model as the folder holds it."""
        check_model_folder(folder)
        # Removed first and written last: a folder without this file is not finished.
        for name in (_TRAINING, CARD, CARD_PAGE, PEOPLE):
            (folder / name).unlink(missing_ok=True)
        self.method.save(folder)
        write_atomically(folder / _CAMPAIGN, self.campaign.to_json())
        write_atomically(folder / REPORTS, self.report_lines())
        (folder / _NODES).unlink(missing_ok=True)
        if self.nodes is not None:
            write_atomically(folder / _NODES, json.dumps(self.nodes))
        (folder / _SERIES).unlink(missing_ok=True)
        if self.collection is not None:
            write_atomically(folder / _SERIES, self.collection.to_json())
        described = self.facts | {_MANIFEST: _manifest(folder, self.facts)}
        write_atomically(folder / _TRAINING, json.dumps(described, indent=2))
        (folder / CHECKPOINT).unlink(missing_ok=True)
        remove_drafts(folder)
        return replace(self, report_lines=partial(read_lines, folder / REPORTS))

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto", people: Path | None = None) -> Model:
        """Read a folder that `save` wrote; refuse one that is unfinished, damaged or mixed up.

        Args:
            folder: folder of the model.
            device: device for predictions: "auto", "cpu" or "cuda".
            people: table of the people as it is now, if the campaign declares public columns.
        """
        try:
            facts = read_object(folder / _TRAINING)
            _check_manifest(folder, facts)
            campaign = Campaign.from_json((folder / _CAMPAIGN).read_bytes())
            kind = METHODS[facts["method"]].estimator
            (folder / REPORTS).open("rb").close()
            nodes = _read_nodes(folder / _NODES)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{folder} holds no model that 'veilgraph train' finished ({type(error).__name__}): train one with "
                "'veilgraph train campaign.json --store sqlite:///reports.db --graph edges.csv --out "
                f"{shlex.quote(str(folder))}'"
            ) from error
        if facts.get("campaign") != campaign.id:
            raise RunError(f"{folder}: {_CAMPAIGN} is not the campaign that the model was trained for; {_REMEDY}")
        method = kind.load(folder, device=device)
        rows = 0 if _SHARDS in facts else facts.get("nodes")
        shape, expected = method.predict_proba().shape, (rows, campaign.schema.num_classes)
        if shape != expected:
            raise RunError(f"{folder}: the weights are of {shape} nodes and classes, not {expected}; {_REMEDY}")
        lines = partial(read_lines, folder / REPORTS)
        series = _read_series(folder / _SERIES, campaign)
        return cls(
            method=method,
            campaign=campaign,
            facts=facts,
            report_lines=lines,
            nodes=nodes,
            collection=series,
            people=people,
        )

    def reports(self) -> Iterator[Report]:
        """Yield the reports of the training."""
        for number, line in enumerate(self.report_lines(), start=1):
            try:
                report = (
                    Report.from_json(line, self.campaign)
                    if self.collection is None
                    else self.collection.parse(parse_report(line))
                )
            except ReportError as error:
                raise ReportError(f"{REPORTS}, line {number}: {error}; {_REMEDY}") from None
            yield report

    def perturbed(self, graph: Graph, reports: Iterable[Report] | None = None) -> PerturbedGraph:
        """Return a graph with the campaign's reports on it.

        Args:
            graph: the public graph as it is now; it may have grown since the training. Nodes in the order of
                `Graph.reordered(model.nodes)` are predicted as in the training, whatever the order of the table.
            reports: reports of the campaign as they are now; default: the reports of the training.
        """
        rounds, given = self.facts.get("rounds") or ROUNDS[0], self.reports() if reports is None else reports
        if self.collection is not None:
            return self.collection.perturbed(graph, given)
        public = read_public(self.campaign.schema.public, self.people, graph)
        return replace(perturbed_graph(self.campaign, graph, given, rounds=rounds), public=public)


def check_model_folder(folder: Path) -> Path:
    """Return `folder` if a model can be written there; refuse a folder that holds other files."""
    held = sorted(p.name for p in folder.iterdir() if not is_draft(p)) if folder.exists() else []
    if DOCUMENT not in held and (others := [name for name in held if name not in (CHECKPOINT, VIEWS, WEIGHTS)]):
        raise RunError(f"{folder} holds '{others[0]}' and no model: choose another folder")
    return folder


def is_shard_model(folder: Path) -> bool:
    """Tell whether a folder holds a model that several processes trained on shards."""
    try:
        return _SHARDS in read_object(folder / _TRAINING)
    except (OSError, ValueError):
        return False  # `load` says what is wrong


def remove_drafts(folder: Path) -> None:
    """Remove files that a killed process did not finish."""
    for path in filter(is_draft, folder.iterdir() if folder.exists() else ()):
        path.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, without reading all of it at once."""
    with path.open(encoding="utf-8") as lines:
        try:
            yield from lines
        except UnicodeDecodeError:
            raise ReportError(f"{path} is not readable as text; {_REMEDY}") from None


def _read_nodes(path: Path) -> tuple[str, ...] | None:
    """Read the names of the nodes; None if the folder has none."""
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not conforms(names, list[str]):
        raise ValueError(f"{path.name} is not a list of names")
    return tuple(names)


def _read_series(path: Path, campaign: Campaign) -> NeighbourCollection | None:
    """Read documents and tables of a series; None for a campaign that is not a wave about neighbours."""
    if not campaign.asked.answers:
        return None
    try:
        found = NeighbourCollection.from_json(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, RecursionError, VeilgraphError) as error:
        raise RunError(f"{path} holds no series of private neighbours ({type(error).__name__}); {_REMEDY}") from None
    if found.campaign.id != campaign.id:
        raise RunError(f"{path} is of another series than the model; {_REMEDY}")
    return found


def _manifest(folder: Path, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of every file of a model, and of the description of its training."""
    files = (*_FILES, *(name for name in (_NODES, _SERIES) if (folder / name).exists()))
    return {name: _digest(folder / name) for name in files} | {_TRAINING: digest_of_document(facts)}


def _check_manifest(folder: Path, facts: dict[str, Any]) -> None:
    """Take the manifest out of the description of the training, and refuse files that it does not describe."""
    stated, found = facts.pop(_MANIFEST, None), _manifest(folder, facts)
    for name in dict.fromkeys([*found, *(stated if isinstance(stated, dict) else ())]):
        if not isinstance(stated, dict) or stated.get(name) != found.get(name):
            raise RunError(f"{folder}: {name} was changed after the training, by the manifest; {_REMEDY}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
