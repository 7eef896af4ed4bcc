"""A model that was trained on a campaign's reports, and its folder.

The folder holds the method (`model.json`, `weights.npz`), the campaign (`campaign.json`), the reports of the training
(`reports.jsonl`: randomized, as they left the devices) and a description of the training (`training.json`). Until the
training is finished, it holds the state of the fit (`checkpoint.npz`) and drafts of these files. No file contains code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import is_draft, write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import perturbed_graph
from veilgraph.campaign.report import Report
from veilgraph.errors import RunError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models import Method
from veilgraph.models.registry import deployable_methods

CHECKPOINT = "checkpoint.npz"
REPORTS = "reports.jsonl"
_TRAINING = "training.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A fitted method with the campaign and the reports that it was trained on.

    Attributes:
        method: the fitted method.
        campaign: the campaign of the reports.
        facts: description of the training, JSON-ready.
        report_lines: returns the reports of the training as JSON, one line each.
    """

    method: Method
    campaign: Campaign
    facts: dict[str, Any]
    report_lines: Callable[[], Iterable[str]] = field(repr=False)

    def save(self, folder: Path) -> Model:
        """Write the folder, over an older model if there is one, and return the model as the folder holds it."""
        check_model_folder(folder)
        # Removed first and written last: a folder without this file is not finished.
        (folder / _TRAINING).unlink(missing_ok=True)
        self.method.save(folder)
        write_atomically(folder / "campaign.json", self.campaign.to_json())
        write_atomically(folder / REPORTS, self.report_lines())
        write_atomically(folder / _TRAINING, json.dumps(self.facts, indent=2))
        (folder / CHECKPOINT).unlink(missing_ok=True)
        remove_drafts(folder)
        return replace(self, report_lines=partial(read_lines, folder / REPORTS))

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto") -> Model:
        """Read a folder that `save` wrote.

        Args:
            folder: folder of the model.
            device: device for predictions: "auto", "cpu" or "cuda".
        """
        try:
            facts = json.loads((folder / _TRAINING).read_text(encoding="utf-8"))
            campaign = Campaign.from_json((folder / "campaign.json").read_bytes())
            kind = deployable_methods()[facts["method"]].estimator
            (folder / REPORTS).stat()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{folder} holds no model that 'veilgraph train' finished ({type(error).__name__})"
            ) from error
        return cls(
            method=kind.load(folder, device=device),
            campaign=campaign,
            facts=facts,
            report_lines=partial(read_lines, folder / REPORTS),
        )

    def reports(self) -> Iterator[Report]:
        """Yield the reports of the training."""
        for line in self.report_lines():
            yield Report.from_json(line, self.campaign)

    def perturbed(self, graph: Graph, reports: Iterable[Report] | None = None) -> PerturbedGraph:
        """Return a graph with the campaign's reports on it.

        Args:
            graph: the public graph as it is now; it may have grown since the training.
            reports: reports of the campaign as they are now; default: those of the training.
        """
        return perturbed_graph(self.campaign, graph, self.reports() if reports is None else reports)


def check_model_folder(folder: Path) -> Path:
    """Return `folder` if a model can be written there; refuse a folder that holds other files."""
    held = sorted(p.name for p in folder.iterdir() if not is_draft(p)) if folder.exists() else []
    if "model.json" not in held and (others := [name for name in held if name != CHECKPOINT]):
        raise RunError(f"{folder} holds '{others[0]}' and no model: choose another folder")
    return folder


def remove_drafts(folder: Path) -> None:
    """Remove files that a killed process did not finish."""
    for path in filter(is_draft, folder.iterdir() if folder.exists() else ()):
        path.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, without reading all of it at once."""
    with path.open(encoding="utf-8") as lines:
        yield from lines
