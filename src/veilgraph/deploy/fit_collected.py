"""Training on collected reports: the split, the fit and the model are those of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import WAVES, check_graph, perturbed_graph, reports_of
from veilgraph.campaign.neighbour_collection import NeighbourCollection
from veilgraph.campaign.plausibility import LEVEL, PlausibleShares, shift_per_liar
from veilgraph.campaign.screening import screen
from veilgraph.campaign.series_folder import newest_document
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.model_folder import (
    CHECKPOINT,
    Model,
    check_model_folder,
)
from veilgraph.deploy.publish_wave import SERIES_SEED, read_collection
from veilgraph.deploy.shard_reports import perturbed_from_shards
from veilgraph.deploy.stored_reports import count_withdrawals, stored_reports
from veilgraph.errors import FitError, RunError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.shards import ShardFolder, ShardGraph, read_graph
from veilgraph.models import Method, StructureOnly, Veil
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.checkpoint import Checkpoint, digest_of_task
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import find_method_for_campaign
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.frequency import estimate_frequencies, estimated_variance
from veilgraph.privacy.mechanisms import LabelMechanism, SymmetricChannel
from veilgraph.progress import Watch, say, unwatched
from veilgraph.reconstruct.propagation import default_hops

DEFAULT_METHOD = "veil"
"""Method of a training that names none: the best that is known."""
NEIGHBOUR_METHOD = "neighbour_waves"
"""The same for a series about private neighbours."""

_TRAIN_SHARE = 2 / 3
_LEAST_LABELS = 2


def train_on_store(
    store: str | None,
    campaign: Path,
    graph: Path | Graph,
    *,
    out: Path,
    nodes: Path | None = None,
    method: str | None = None,
    seed: int = 0,
    hold_out: float = 0.0,
    screened: bool = False,
    plausible: Path | None = None,
    waves: str = WAVES[0],
    tables: Path | None = None,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    card: bool = True,
    watch: Watch = unwatched,
    **parameters: Any,
) -> Model:
    """Train a method on the reports of a campaign in a store, write the model's folder and return the model.

    The model is written first, then its card (`card.json` and `people.csv`).

    A training that was stopped continues from its last checkpoint in the folder. Methods without epochs have no
    checkpoint and start again.

    Args:
        store: URL of the store: `sqlite:///FILE` or `postgresql://...`; None reads the reports of a folder of shards.
        campaign: file of the campaign.
        graph: the public graph that the campaign was made for, or its edge table, or its folder of shards.
        out: folder of the model.
        nodes: node table with a column "id", for nodes without edges in an edge table.
        method: name of a method of the registry that fits the campaign; default: the best that is known.
        seed: seed of the split, the folds and the weights.
        hold_out: share of the label reports that only estimate the accuracy.
        screened: leave out reports that are implausible.
        plausible: file of class shares that the owner declares plausible. The model's facts say which estimates are
            outside.
        waves: reports of a series to learn from: "all" of each person, or the "latest", if many values change.
        tables: folder of a series about private neighbours; its newest wave is taken, whichever document is given.
        device: "auto", "cpu" or "cuda".
        memory: limit of a process for inputs and hidden units, in bytes.
        card: write a card beside the model; see `veilgraph.deploy.model_card`.
        watch: shows the progress of reading, training and the card.
        parameters: other parameters of the method; None stands for the default. A method refuses those it lacks.
    """
    prepared = _prepare_from_store(
        store,
        campaign,
        graph,
        nodes,
        check_model_folder(out),
        method=method,
        seed=seed,
        hold_out=hold_out,
        screened=screened,
        plausible=plausible,
        waves=waves,
        tables=tables,
        watch=watch,
        device=device,
        parameters=parameters,
    )
    with watch("train"):
        model = prepared.fit(memory=memory)
    model = model.save(out)
    if card:
        _write_card(model, prepared, out, memory=memory, watch=watch)
    return model


def _write_card(model: Model, prepared: PreparedFit, folder: Path, *, memory: int, watch: Watch) -> None:
    """Write the card of a model that is complete; after Ctrl-C the model is still whole."""
    perturbed, held_out = prepared.task.perturbed, prepared.record.held_out
    judged = None if held_out is None else held_out.judge(model.method, perturbed.label_mechanism)
    try:
        make_card(model, perturbed, held_out=judged, memory=memory, watch=watch).write(folder)
    except KeyboardInterrupt:
        say(f"the model in {folder} is complete, its card is not: veilgraph card writes it")
        raise


def fit_reports(
    campaign: Campaign,
    perturbed: PerturbedGraph,
    method: Method,
    *,
    seed: int = 0,
    hold_out: float = 0.0,
    folder: Path | None = None,
    memory: int = DEFAULT_MEMORY,
) -> Model:
    """Fit a method to the reports of a campaign in this process; see `prepare_fit` for the arguments."""
    prepared = prepare_fit(campaign, perturbed, method, seed=seed, hold_out=hold_out, folder=folder)
    return prepared.fit(memory=memory)


def default_method(campaign: Campaign) -> str:
    """Return the name of the best method that is known for the reports of a campaign."""
    return DEFAULT_METHOD if campaign.has_edges else NEIGHBOUR_METHOD


def method_for_campaign(
    name: str, campaign: Campaign, graph: Graph, *, seed: int = 0, device: str = "auto", **parameters: Any
) -> Method:
    """Return a method of the registry for the reports of a campaign.

    Args:
        name: name of the method.
        campaign: the campaign; it decides which methods there are.
        graph: the public graph; hops that are not given follow from it.
        seed: seed of the method, if it draws anything.
        device: device of the method, if it has one.
        parameters: other parameters of the method; None stands for the default. Those that it lacks are refused.
    """
    if campaign.neighbours is None and not graph.num_edges:
        raise FitError(
            "the graph has no edges, and no wave about neighbours is published yet: publish one with "
            "'veilgraph neighbours publish', and give --tables, the folder of the series"
        )
    entry = find_method_for_campaign(name, campaign.feature_mechanism, private_neighbours=not campaign.has_edges)
    given = {key: value for key, value in parameters.items() if value is not None}
    if unknown := sorted(given.keys() - entry.parameters):
        raise FitError(f"the method '{name}' has no {unknown[0]}: leave it out")
    if {"feature_hops", "label_hops"} <= entry.parameters:
        hops = default_hops(graph)
        given = {"feature_hops": 2 * hops, "label_hops": hops} | given
    return entry.make({"seed": seed, "device": device} | given)


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutLabels:
    """Reported labels that take no part in training or selection and estimate the accuracy instead.

    Attributes:
        nodes: numbers of the nodes, [held out].
        named: classes that each report names, [held out, classes].
        channel: probabilities that a report names the true class, or a given other class.
        control: classes that the structure-only control predicts for the nodes, [held out].
    """

    nodes: NDArray[np.int64] = field(repr=False)
    named: NDArray[np.bool_] = field(repr=False)
    channel: SymmetricChannel
    control: NDArray[np.int64] = field(repr=False)

    def estimate_accuracy(
        self, predicted: NDArray[np.int64], contamination: Contamination | None = None
    ) -> dict[str, float]:
        r"""Return an unbiased estimate of the share of people whose true label is predicted, and its standard error.

        A report names the predicted class with probability p if the prediction is right, and q otherwise. So the
        share of such reports is q + (p - q) times the accuracy, and the estimator of frequencies applies to it. A
        share a of reports that were not randomized names it with another probability r, whatever is true:

        .. math:: \text{share} = (1 - a) (q + (p - q)\, \text{accuracy}) + a\, r

        Args:
            predicted: predicted classes of the nodes, [held out].
            contamination: reports that were not randomized, as the training found them; None if all were. Its own
                error is not part of the standard error.
        """
        agrees, classes = self.named[np.arange(len(self.nodes)), predicted], self.named.shape[1]
        agreeing, chosen = (np.bincount(each, minlength=classes) for each in (predicted[agrees], predicted))
        return accuracy_of_counts(agreeing, chosen, self.channel, contamination)

    def judge(self, method: Method, mechanism: LabelMechanism) -> UnusedReports:
        """Return the labels with the predictions of a method that has not seen them."""
        probabilities = method.predict_proba()[self.nodes].astype(np.float64)
        return UnusedReports(nodes=self.nodes, probabilities=probabilities, named=self.named, mechanism=mechanism)

    def estimated_accuracies(self, method: Method) -> dict[str, dict[str, float]]:
        """Return the estimates for a fitted method and for the control, by name, with the liars that it found."""
        found = method.contamination_ if isinstance(method, Veil) else None
        predicted = {method.name: method.predict()[self.nodes], StructureOnly.name: self.control}
        return {name: self.estimate_accuracy(classes, found) for name, classes in predicted.items()}


def accuracy_of_counts(
    agreeing: NDArray[np.int64],
    chosen: NDArray[np.int64],
    channel: SymmetricChannel,
    contamination: Contamination | None = None,
) -> dict[str, float]:
    """Return `HeldOutLabels.estimate_accuracy` from counts, which several processes can add up.

    Args:
        agreeing: how many reports name the class that is predicted, for each predicted class.
        chosen: how often each class is predicted.
        channel: probabilities that a report names the true class, or a given other class.
        contamination: reports that were not randomized; None if all were.
    """
    count = int(chosen.sum())
    observed = np.asarray(agreeing.sum() / count, dtype=np.float64)
    error = np.sqrt(estimated_variance(observed, channel, float(max(count, 2))))
    if contamination is not None:
        lies = chosen @ np.array(contamination.named_shares) / count
        observed = (observed - contamination.share * lies) / (1 - contamination.share)
        error = error / (1 - contamination.share)
    return {"accuracy": float(estimate_frequencies(observed, channel)), "standard_error": float(error)}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRecord:
    """Description of a training, without its graph and reports.

    Attributes:
        campaign: the campaign of the reports.
        facts: description of the training, JSON-ready.
        held_out: labels to estimate the accuracy from, or None.
    """

    campaign: Campaign
    facts: dict[str, Any]
    held_out: HeldOutLabels | None

    def model(
        self,
        method: Method,
        report_lines: Callable[[], Iterator[str]],
        *,
        nodes: tuple[str, ...] | None = None,
        collection: NeighbourCollection | None = None,
    ) -> Model:
        """Return the model of a fitted method, with the facts that only the fit can tell.

        Args:
            method: the fitted method.
            report_lines: returns the reports of the training as JSON, one line each.
            nodes: names of the nodes in the order of the fit.
            collection: documents and tables of a series about private neighbours.
        """
        facts = self.facts | {"processes": 1, "contamination": contamination_facts(method, self.campaign)}
        if self.held_out is not None:
            facts["estimated_accuracy"] = self.held_out.estimated_accuracies(method)
        return Model(
            method=method,
            campaign=self.campaign,
            facts=facts,
            report_lines=report_lines,
            nodes=nodes,
            collection=collection,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedFit:
    """A fit that can be started.

    Attributes:
        task: method, reports, split and checkpoint.
        record: description of the training.
        collection: documents and tables of a series about private neighbours; None for all other campaigns.
    """

    task: FitTask[Method]
    record: TrainingRecord
    collection: NeighbourCollection | None = None

    def report_lines(self) -> Iterator[str]:
        """Yield the reports of the training as JSON, in the order of the nodes, one line each."""
        perturbed = self.task.perturbed
        reports = (
            reports_of(perturbed, self.record.campaign)
            if self.collection is None
            else self.collection.reports_of(perturbed)
        )
        return (report.to_json() + "\n" for report in reports)

    def fit(self, *, memory: int = DEFAULT_MEMORY) -> Model:
        """Fit the method in this process, with at most `memory` bytes for inputs and hidden units."""
        for _ in type(self.task.method).fit_together([self.task], memory=memory):
            pass
        names = self.task.perturbed.graph.names
        return self.record.model(self.task.method, self.report_lines, nodes=names, collection=self.collection)


def prepare_fit(
    campaign: Campaign,
    perturbed: PerturbedGraph,
    method: Method,
    *,
    seed: int = 0,
    hold_out: float = 0.0,
    folder: Path | None = None,
    facts: Mapping[str, Any] | None = None,
    shards: str | None = None,
    collection: NeighbourCollection | None = None,
) -> PreparedFit:
    """Split the reported labels: two thirds for training and one third for the selection of the epoch.

    Args:
        campaign: the campaign of the reports.
        perturbed: the reports on the graph.
        method: the method, not fitted yet.
        seed: seed of the split.
        hold_out: share of the label reports that only estimate the accuracy, of the method and of the structure-only
            control.
        folder: folder of the model. A checkpoint in it is continued, and a new one is written there.
        facts: further facts for the description of the training, JSON-ready.
        shards: digest of the folder of shards that graph and reports are from; None if they are from elsewhere.
        collection: documents and tables of a series about private neighbours.
    """
    check_labels(int(perturbed.has_label.sum()), hold_out)
    split = _draw_split(perturbed, seed, hold_out)
    # The model's folder holds the reports of the training: no label that is held out, no feature that nothing reads.
    seen = replace(
        perturbed,
        has_label=perturbed.has_label & split.labelled,
        has_features=perturbed.has_features & method.uses_features,
    )
    checkpoint = None
    if folder is not None and isinstance(method, GNNMethod):
        check_model_folder(folder)
        checkpoint = (
            _checkpoint(folder, method, seen, split)
            if shards is None
            else open_shard_checkpoint(folder, method, shards=shards, seed=seed, hold_out=hold_out)
        )
    described: dict[str, Any] = {
        "campaign": campaign.id,
        "method": method.name,
        "guarantee": campaign.guarantee.as_dict(),
        "nodes": perturbed.graph.num_nodes,
        "edges": perturbed.graph.num_edges,
        "feature_reports": int(seen.has_features.sum()),
        "label_reports": int(perturbed.has_label.sum()),
        "train": int(split.train.sum()),
        "validation": int(split.validation.sum()),
        "held_out": int(split.test.sum()),
        "seed": seed,
        "resumed_after_epochs": 0 if checkpoint is None else checkpoint.epochs,
    }
    held_out = _held_out_labels(perturbed, seen, split) if split.test.any() else None
    return PreparedFit(
        task=FitTask(method=method, perturbed=seen, split=split, checkpoint=checkpoint),
        record=TrainingRecord(campaign=campaign, facts=described | dict(facts or {}), held_out=held_out),
        collection=collection,
    )


def check_labels(count: int, hold_out: float) -> None:
    """Refuse a training with too few label reports, or with a share to hold out that leaves none."""
    if count < _LEAST_LABELS:
        raise FitError(f"the nodes of the graph sent {count} label report(s): training needs at least {_LEAST_LABELS}")
    if not 0 <= hold_out < 1:
        raise FitError(f"hold_out is {hold_out}: give a share from 0 to below 1")


def _draw_split(perturbed: PerturbedGraph, seed: int, hold_out: float) -> Split:
    """Draw a split; on shards by the numbers of the nodes, so that it does not depend on the number of processes."""
    nodes, eligible = perturbed.graph.num_nodes, perturbed.has_label
    if isinstance(perturbed.graph, ShardGraph):
        return draw_counted_split(np.arange(nodes), eligible, seed=seed, hold_out=hold_out)
    return Split.random(nodes, seed=seed, eligible=eligible, **_shares(hold_out))


def draw_counted_split(numbers: NDArray[np.int64], eligible: NDArray[np.bool_], *, seed: int, hold_out: float) -> Split:
    """Draw the split of a training on shards from the numbers of nodes in the whole graph.

    Args:
        numbers: numbers of the nodes, [nodes].
        eligible: nodes that sent a label report, [nodes].
        seed: seed of the split.
        hold_out: share of the label reports that only estimate the accuracy.
    """
    return Split.counted(numbers, seed=seed, eligible=eligible, **_shares(hold_out))


def _shares(hold_out: float) -> dict[str, float]:
    return {"train": _TRAIN_SHARE * (1 - hold_out), "validation": (1 - _TRAIN_SHARE) * (1 - hold_out)}


def contamination_facts(method: Method, campaign: Campaign) -> dict[str, Any] | None:
    """Describe the label reports that were not randomized, JSON-ready; None if the method found none."""
    if not isinstance(method, Veil) or (found := method.contamination_) is None:
        return None
    names = campaign.schema.classes
    targets = {names[each]: found.targets[each] for each in np.argsort(found.targets)[::-1] if found.targets[each] > 0}
    say = f"most name '{max(targets, key=lambda name: targets[name])}'"
    if len(targets) > 1:
        say = "they name " + ", ".join(f"'{name}' ({share:.0%})" for name, share in targets.items())
    sentence = f"About {found.share:.0%} of the label reports were not randomized; {say}. The model allows for them."
    return {"share": found.share, "targets": targets, "sentence": sentence}


def _held_out_labels(perturbed: PerturbedGraph, seen: PerturbedGraph, split: Split) -> HeldOutLabels:
    """Return the labels held out, and what the control predicts from the reports that training sees."""
    nodes, mechanism = np.flatnonzero(split.test), perturbed.label_mechanism
    return HeldOutLabels(
        nodes=nodes,
        named=mechanism.named(perturbed.labels[nodes]),
        channel=mechanism.channel,
        control=StructureOnly().fit(seen, split).predict()[nodes],
    )


def open_shard_checkpoint(folder: Path, method: GNNMethod, *, shards: str, seed: int, hold_out: float) -> Checkpoint:
    """Open the checkpoint of a fit on shards, which no process reads as a whole.

    Args:
        folder: folder of the model.
        method: the method.
        shards: digest of the folder of shards.
        seed: seed of the split.
        hold_out: share of the label reports that are held out.
    """
    settings = _settings(method) | {"shards": shards, "split": [seed, hold_out]}
    return Checkpoint.open(folder / CHECKPOINT, digest_of_task(settings, []))


def _settings(method: GNNMethod) -> dict[str, Any]:
    return {"method": method.name, **method.saved_parameters(), "device": resolve_device(method.device).type}


def _checkpoint(folder: Path, method: GNNMethod, perturbed: PerturbedGraph, split: Split) -> Checkpoint:
    """Open the checkpoint of this fit. It depends on graph, reports, split and settings, but not on the processes."""
    settings = _settings(method)
    reports = perturbed.features, perturbed.labels, perturbed.has_features, perturbed.has_label
    digest = digest_of_task(settings, [perturbed.graph.edges, *reports, split.train, split.validation])
    return Checkpoint.open(folder / CHECKPOINT, digest)


def _prepare_from_store(
    store: str | None,
    campaign: Path,
    graph: Path | Graph,
    nodes: Path | None,
    folder: Path,
    *,
    method: str | None,
    seed: int,
    hold_out: float,
    screened: bool,
    plausible: Path | None,
    waves: str,
    tables: Path | None,
    device: str,
    watch: Watch,
    parameters: Mapping[str, Any],
) -> PreparedFit:
    """Read campaign, graph and reports, and prepare the fit."""
    asked = newest_document(tables, Campaign.from_json(campaign.read_bytes()))
    declared = None if plausible is None else PlausibleShares.load(plausible, asked)
    public = check_graph(asked, graph if isinstance(graph, Graph) else read_graph(graph, nodes=nodes))
    method = method or default_method(asked)
    chosen = method_for_campaign(method, asked, public, seed=seed, device=device, **parameters)
    collection = None
    if asked.neighbours is None:
        perturbed, withdrawals = _read_reports(store, asked, public, graph, waves=waves, watch=watch)
    else:
        collection, perturbed, withdrawals = _read_series(
            store, asked, public, tables, seed=seed, hold_out=hold_out, watch=watch
        )
    shards = ShardFolder.open(graph).digest if store is None and isinstance(graph, Path) else None
    screening = screen(perturbed)
    facts = {
        "method": method,
        "screening": {"excluded": screened, "suspicions": [asdict(suspicion) for suspicion in screening.suspicions]},
        "plausibility": _plausibility(perturbed, declared),
        "withdrawals": withdrawals,
        "waves": None if asked.waves is None else waves,
        "neighbour_answers": [int(wave.has_answer.sum()) for wave in perturbed.neighbour_waves],
    }
    if screened:
        perturbed = screening.exclude(perturbed)
    with watch("train"):
        return prepare_fit(
            asked,
            perturbed,
            chosen,
            seed=seed,
            hold_out=hold_out,
            folder=folder,
            facts=facts,
            shards=None if screened else shards,  # a screened fit has other reports
            collection=collection,
        )


def _read_series(
    store: str | None,
    campaign: Campaign,
    people: Graph,
    tables: Path | None,
    *,
    seed: int,
    hold_out: float,
    watch: Watch,
) -> tuple[NeighbourCollection, PerturbedGraph, int]:
    """Read a series about private neighbours; return its documents and tables, all reports, and the withdrawals."""
    if store is None:
        raise RunError("there are no reports: give --store, the store of the series")
    if not campaign.has_edges and (seed != SERIES_SEED or hold_out):
        raise FitError(
            "a series about neighbours is judged by people whose reports are in no table, and its seed is "
            f"{SERIES_SEED}: leave --seed and --hold-out out"
        )
    withdrawals = count_withdrawals(store, campaign)  # before reading: a later one may be in the model
    collection, perturbed = read_collection(store, campaign, people, tables, watch=watch)
    return collection, perturbed, withdrawals


def _read_reports(
    store: str | None, campaign: Campaign, public: Graph, graph: Path | Graph, *, waves: str, watch: Watch
) -> tuple[PerturbedGraph, int]:
    """Put the reports of a store, or of the shards in `graph`, on the graph; return the number of withdrawals too."""
    if store is not None:
        withdrawals = count_withdrawals(store, campaign)  # before reading: a later one may be in the model
        with stored_reports(store, campaign, watch=watch) as reports:
            return perturbed_graph(campaign, public, reports, waves=waves), withdrawals
    if not isinstance(graph, Path) or not graph.is_dir():
        raise RunError("there are no reports: give --store, or a folder of shards with reports as --graph")
    folder = ShardFolder.open(graph)
    return perturbed_from_shards(campaign, folder, public), int(folder.manifest.get("withdrawals", 0))


def _plausibility(perturbed: PerturbedGraph, declared: PlausibleShares | None) -> dict[str, Any]:
    """Return what coordinated liars can do, and the comparison of all label reports with the declared shares."""
    mechanism, labels = perturbed.label_mechanism, perturbed.labels[perturbed.has_label]
    checked = () if declared is None else declared.check(labels, mechanism)
    return {
        "shift_per_liar": shift_per_liar(mechanism.channel),
        "level": LEVEL,
        "shares": [asdict(share) | {"sentence": share.sentence} for share in checked],
    }
