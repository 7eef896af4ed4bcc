"""The card of a model: what was collected, what it reveals, and how good the predictions are, from reports alone."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.assemble import check_graph
from veilgraph.deploy.group_shares import shares_of
from veilgraph.deploy.learning_curve import (
    ALL_SHARES,
    default_shares,
    expected_help,
    fit_again,
    learning_curve,
    next_hundred,
)
from veilgraph.deploy.model_folder import CARD, PEOPLE, Model
from veilgraph.deploy.prediction import (
    CERTAIN,
    COVERAGE,
    calibrated_sets,
    certain_answers,
    sets_of_classes,
    unknown_people,
    with_class_shares,
)
from veilgraph.deploy.stored_reports import withdrawn_people, withdrawn_since
from veilgraph.errors import RunError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.io import frame_to_csv
from veilgraph.models import StructureOnly, Veil
from veilgraph.models.base import DEFAULT_MEMORY, Method
from veilgraph.models.baselines import class_shares
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.privacy.estimate import LEVEL, Estimate
from veilgraph.privacy.mechanisms import LabelMechanism
from veilgraph.privacy.strict_json import TIME_FORMAT
from veilgraph.progress import Watch, unwatched

FORMAT = 5
"""Format of `card.json`."""

_FOLDS = 5
_DEGREES = (0, 2, 4, 8, 16)
"""Lowest degree of each group of people."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCard:
    """The card of a model.

    Attributes:
        content: what the card says, JSON-ready. It names no person.
        people: table of the people whose answer is uncertain, or who sent no label, by name. It stays with the owner.
    """

    content: dict[str, Any]
    people: pd.DataFrame = field(repr=False)

    def write(self, folder: Path) -> None:
        """Write `people.csv`, which only the owner of the file may read, and `card.json`."""
        table = frame_to_csv(self.people)
        write_atomically(folder / PEOPLE, table)
        write_atomically(folder / CARD, json.dumps(self.content, indent=2))


def read_card(folder: Path) -> dict[str, Any]:
    """Return the content of the card in a model folder."""
    try:
        content = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder} holds no readable card: 'veilgraph train --card' writes one") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RunError(f"{folder}/{CARD} is of another format than {FORMAT}: 'veilgraph train --card' writes a new one")
    return content


def make_card(
    model: Model,
    perturbed: PerturbedGraph | None,
    *,
    held_out: UnusedReports | None = None,
    not_to_ask: Set[str] = frozenset(),
    shares: Sequence[float] | None = None,
    memory: int = DEFAULT_MEMORY,
    watch: Watch = unwatched,
) -> ModelCard:
    """Describe a model from its reports alone.

    Args:
        model: the model.
        perturbed: the reports and the graph of the training; None if no process holds all of them.
        held_out: labels that took no part in the training, with the model's predictions. They judge a method that
            cannot leave out a person's own report.
        not_to_ask: names of people who withdrew or objected: the table of people leaves them out.
        shares: subsamples of the learning curve; default: as many as take no longer than the training.
        memory: limit of a fit of the learning curve, in bytes.
        watch: shows the progress of the learning curve.
    """
    content = _collection(model) | {"withdrawn_since": 0}
    if perturbed is None:
        return ModelCard(content=content | _unjudged(model), people=pd.DataFrame({"id": []}))
    judged = model.method.unused_reports(perturbed) or held_out
    content |= _unjudged(model) if judged is None else _judgement(model, perturbed, judged)
    content["shares"] = shares_of(model.method, perturbed).document
    wanted = default_shares(perturbed) if shares is None else tuple(shares)
    content["learning_curve"] = _curve(model, perturbed, wanted, memory=memory, watch=watch)
    if judged is not None and wanted:
        content["accuracy"] |= _parts(model, perturbed, judged, memory=memory)
    answers = _Answers.of(model, perturbed)
    content["sets"] = _sets(model, perturbed, answers, judged)
    other = _other_folds(model.method, perturbed, memory=memory) if wanted else None
    content["uncertain"] = _uncertain(answers, perturbed) | {"other_folds": other}
    return ModelCard(content=content, people=_people(model.method, perturbed, answers, not_to_ask))


_PARTS = ("without_features", "features", "without_public", "public", "without_links", "links")
"""Estimates of a card about what features, public columns and what is known about links add."""


def complete_card(
    folder: Path,
    graph: Graph,
    *,
    store: str | None = None,
    people_file: Path | None = None,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    watch: Watch = unwatched,
) -> ModelCard:
    """Write the card of a model folder with everything that a training leaves out, and return it.

    What the card already says about the same reports is kept: the whole learning curve is computed once.

    Args:
        folder: folder of the model.
        graph: the public graph that the campaign was made for.
        store: URL of the store, which knows who withdrew or objected: they are counted since the training, and the
            table of people leaves them out. Without it the table names them like all others.
        people_file: table of the people, if the campaign declares public columns.
        device: "auto", "cpu" or "cuda".
        memory: limit of a fit of the learning curve, in bytes.
        watch: shows the progress of the learning curve.
    """
    model = Model.load(folder, device=device, people=people_file)
    if model.nodes is None:
        raise RunError(f"{folder} does not say in which order its nodes are, as after torchrun: it has no full card")
    perturbed = model.perturbed(check_graph(model.campaign, graph).reordered(model.nodes))
    since, not_to_ask = None, set[str]()
    if store is not None:
        since, not_to_ask = withdrawn_since(store, model), withdrawn_people(store, model.campaign)
    content, known = _collection(model), _known(folder)
    if known is not None and known["reports"] == content["reports"]:
        content = known | content
        if content["learning_curve"] is None or content["learning_curve"]["left_out"]:
            content["learning_curve"] = _curve(model, perturbed, ALL_SHARES, memory=memory, watch=watch)
        if content["uncertain"] is not None and content["uncertain"]["other_folds"] is None:
            other = _other_folds(model.method, perturbed, memory=memory)
            content["uncertain"] = content["uncertain"] | {"other_folds": other}
        people = _people(model.method, perturbed, _Answers.of(model, perturbed), not_to_ask)
        card = ModelCard(content=content, people=people)
    else:
        card = make_card(model, perturbed, not_to_ask=not_to_ask, shares=ALL_SHARES, memory=memory, watch=watch)
    card.content["withdrawn_since"] = since
    card.write(folder)
    return card


def _known(folder: Path) -> dict[str, Any] | None:
    """Return the content of an earlier card; None if no card can be read."""
    try:
        return read_card(folder)
    except RunError:
        return None


def _curve(
    model: Model, perturbed: PerturbedGraph, shares: Sequence[float], *, memory: int, watch: Watch
) -> dict[str, Any]:
    """Return the learning curve, and the subsamples that were left out; no points for other methods than Veil."""
    judged = model.method.unused_reports(perturbed) if isinstance(model.method, Veil) else None
    if judged is None:
        return {"points": [], "next_hundred": None, "left_out": []}
    with watch("card") as progress:
        seed = model.facts["seed"]
        points = learning_curve(model.method, perturbed, judged, shares, seed=seed, memory=memory, progress=progress)
    hundred = next_hundred(model.method, perturbed, judged, seed=seed, memory=memory) if shares else None
    return {
        "points": [asdict(point) for point in points],
        "next_hundred": _dict(hundred),
        "left_out": [share for share in ALL_SHARES if share not in shares],
    }


def _collection(model: Model) -> dict[str, Any]:
    """Return the section about the collection: campaign, guarantee, reports, graph and method."""
    campaign, facts = model.campaign, model.facts
    mechanism: LabelMechanism | None = campaign.asked.collected_label
    lines = sorted(model.report_lines())
    return {
        "format": FORMAT,
        "made": datetime.now(UTC).strftime(TIME_FORMAT),
        "veilgraph": metadata.version("veilgraph"),
        "level": LEVEL,
        "campaign": {
            "id": campaign.id,
            "purpose": campaign.notice.purpose,
            "contact": campaign.notice.contact,
            "label": campaign.label_name,
            "classes": list(campaign.schema.classes),
            "features": campaign.schema.num_features if campaign.feature_mechanism is not None else 0,
            "public": [column.name for column in campaign.schema.public],
        },
        "guarantee": campaign.guarantee.as_dict(),
        "guarantee_in_words": campaign.guarantee.in_words(theorem_1=False),
        "label_report": None
        if mechanism is None
        else {
            "classes": mechanism.domain_size,
            "set_size": mechanism.set_size,
            "names_true_class": float(mechanism.channel.keep),
        },
        "reports": {
            "total": len(lines),
            "label": facts["label_reports"] - facts["held_out"],
            "features": facts["feature_reports"],
            "held_out": facts["held_out"],
            "sha256": hashlib.sha256("".join(lines).encode()).hexdigest() if lines else None,
            "shards": facts.get("shards"),
        },
        "graph": {"nodes": facts["nodes"], "edges": facts["edges"], "links": facts.get("links")},
        "method": facts["method"],
        "seed": facts["seed"],
        "contamination": facts["contamination"],
    }


def _unjudged(model: Model) -> dict[str, Any]:
    """Return the sections of a card without reports to judge by; a held-out estimate of the training is kept."""
    sections = dict.fromkeys(("shares", "calibration", "certain", "by_class", "learning_curve", "sets", "uncertain"))
    accuracy = {
        name: None
        if (found := model.facts.get("estimated_accuracy", {}).get(key)) is None
        else _of_training(found, model)
        for name, key in (("model", model.facts["method"]), ("control", StructureOnly.name))
    }
    judged = "held out" if accuracy["model"] else None
    return {
        "judged_by": judged,
        "accuracy": accuracy | dict.fromkeys(("own_report", "floor", "difference", "stated", *_PARTS)),
    } | sections


def _of_training(found: dict[str, float], model: Model) -> dict[str, Any]:
    error, reports = found["standard_error"], model.facts["held_out"]
    return asdict(Estimate.normal(found["accuracy"], error, reports=reports))


def _judgement(model: Model, perturbed: PerturbedGraph, judged: UnusedReports) -> dict[str, Any]:
    """Return everything that is estimated from reports which predictions did not use."""
    out_of_fold = bool(perturbed.has_label[judged.nodes].all())
    largest = judged.with_predictions(_majority(perturbed, judged.nodes))
    control, difference = None, judged.difference(largest)
    # Without links, the control would have no edge to propagate a label over.
    if model.campaign.asked.has_edges and not isinstance(model.method, StructureOnly):
        other = judged.with_predictions(_control(perturbed, model.facts["seed"])[judged.nodes])
        control, difference = other.accuracy(), judged.difference(other)
    share, certain = judged.certain(CERTAIN)
    names = model.campaign.schema.classes
    return {
        "judged_by": "out of fold" if out_of_fold else "held out",
        "accuracy": {
            "model": asdict(judged.accuracy()),
            "own_report": asdict(judged.accuracy_with_own_report()) if isinstance(model.method, Veil) else None,
            "control": _dict(control),
            "floor": asdict(largest.accuracy()),
            "difference": _dict(difference),
            "stated": judged.stated_accuracy(),
            **dict.fromkeys(_PARTS),
        },
        "calibration": [asdict(each) for each in judged.calibration()],
        "certain": {"from": CERTAIN, "share": share, "accuracy": asdict(certain)},
        "by_class": [{"name": name} | asdict(each) for name, each in zip(names, judged.by_class(), strict=True)],
    }


def _dict(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _parts(model: Model, perturbed: PerturbedGraph, judged: UnusedReports, *, memory: int) -> dict[str, dict[str, Any]]:
    """Return what features, public columns and links add: the accuracy of the method without each, and the gain."""
    method, without = model.method, dict[str, PerturbedGraph]()
    if not isinstance(method, Veil):
        return {}
    if method.uses_features and perturbed.has_features.any():
        without["features"] = replace(perturbed, has_features=np.zeros_like(perturbed.has_features))
    if perturbed.public is not None:
        without["public"] = replace(perturbed, public=None)
    if perturbed.graph.links is not None:
        without["links"] = replace(perturbed, graph=replace(perturbed.graph, links=None))
    found = dict[str, dict[str, Any]]()
    for part, reports in without.items():
        again = fit_again(method, reports, seed=model.facts["seed"], memory=memory)
        other = judged.with_predictions(again.predict_without_own_report(reports)[judged.nodes])
        found |= {f"without_{part}": asdict(other.accuracy()), part: asdict(judged.difference(other))}
    return found


def _majority(perturbed: PerturbedGraph, judged: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the class shares of other people's label reports for each judged person, [judged, classes].

    It is all that is known about a person without neighbours and without their own report. Where all reports judge,
    the others are the reports of the other four folds.
    """
    folds = np.arange(len(judged)) % (_FOLDS if perturbed.has_label.sum() == len(judged) else 1)
    shares = np.empty((len(judged), perturbed.schema.num_classes))
    for fold in np.unique(folds):
        others = perturbed.has_label.copy()
        others[judged[folds == fold]] = False
        shares[folds == fold] = class_shares(replace(perturbed, has_label=others))
    return shares


def _control(perturbed: PerturbedGraph, seed: int) -> NDArray[np.float64]:
    """Return the control's class probabilities, each without the own report of the node, [nodes, classes]."""
    nodes = perturbed.graph.num_nodes
    split = Split.random(nodes, seed=seed, train=2 / 3, validation=1 / 3, eligible=perturbed.has_label)
    return StructureOnly().fit(perturbed, split).predict_without_own_report(perturbed)


class _Answers(NamedTuple):
    """What `veilgraph predict` says of the people of the training.

    Attributes:
        probabilities: class probabilities, [nodes, classes].
        sets: sets of classes, [nodes, classes]; None if the method gives none.
        certain: whether the answer is certain enough, [nodes].
        unknown: about whom nothing is known, [nodes].
    """

    probabilities: NDArray[np.float32]
    sets: NDArray[np.bool_] | None
    certain: NDArray[np.bool_]
    unknown: NDArray[np.bool_]

    @classmethod
    def of(cls, model: Model, perturbed: PerturbedGraph) -> _Answers:
        """Return the answers of a model on the reports of its training."""
        unknown = unknown_people(perturbed)
        rows = with_class_shares(model.method.predict_proba(), perturbed, unknown)
        calibrated = calibrated_sets(model, None)
        sets = None if calibrated is None else sets_of_classes(calibrated, rows, perturbed, unknown, COVERAGE)
        return cls(rows, sets, certain_answers(rows, sets), unknown)


def _sets(
    model: Model, perturbed: PerturbedGraph, answers: _Answers, judged: UnusedReports | None
) -> dict[str, Any] | None:
    """Return how large sets of classes are, and how often those with one class are right; None if there are none.

    A set with one class is judged by reports that it did not use, on the same people as the predictions. Without a
    report, nothing is known about people without a contact, and their set has all classes.
    """
    if (calibrated := calibrated_sets(model, None)) is None or answers.sets is None:
        return None
    sizes = answers.sets.sum(axis=1)
    groups = {"reported": perturbed.has_label, "silent": ~perturbed.has_label}
    single = None
    if judged is not None:
        nobody = np.zeros(len(judged.nodes), dtype=np.bool_)
        one_class = calibrated.sets(judged.probabilities.astype(np.float32), nobody, COVERAGE).sum(axis=1) == 1
        one_class &= perturbed.is_linked[judged.nodes]
        single = {"share": float(one_class.mean()), "accuracy": asdict(judged.of(one_class).accuracy())}
    return {
        "coverage": COVERAGE,
        "standard_error": calibrated.standard_error(COVERAGE),
        "classes": perturbed.schema.num_classes,
        "single": single,
        "groups": {
            name: {"people": int(chosen.sum()), "mean_size": float(sizes[chosen].mean())}
            | {"sizes": np.bincount(sizes[chosen], minlength=perturbed.schema.num_classes + 1).tolist()}
            for name, chosen in groups.items()
            if chosen.any()
        },
        "unknown": int(answers.unknown.sum()),
    }


def _uncertain(answers: _Answers, perturbed: PerturbedGraph) -> dict[str, Any]:
    """Return how many people have an uncertain answer, by predicted class and by degree."""
    uncertain, predicted = ~answers.certain, answers.probabilities.argmax(axis=1)
    degrees = perturbed.graph.degrees
    group = np.searchsorted(_DEGREES, degrees, side="right") - 1
    return {
        "from": CERTAIN,
        "people": int(uncertain.sum()),
        "of": len(uncertain),
        "silent": int((uncertain & ~perturbed.has_label).sum()),
        "by_class": [
            {
                "name": name,
                "people": int((chosen := predicted == code).sum()),
                "uncertain": int(uncertain[chosen].sum()),
            }
            for code, name in enumerate(perturbed.schema.classes)
        ],
        "by_degree": []
        if not degrees.any()
        else [
            {"name": name, "people": int((chosen := group == number).sum()), "uncertain": int(uncertain[chosen].sum())}
            for number, name in enumerate(_degree_names())
            if (group == number).any()
        ],
    }


def _other_folds(method: Method, perturbed: PerturbedGraph, *, memory: int) -> dict[str, int] | None:
    """Return how many people get another class if the folds of the reports are drawn again, with the next seed.

    It takes another fit. There is no such number for other methods than Veil.
    """
    if not isinstance(method, Veil):
        return None
    other = type(method)(**method.get_params() | {"seed": method.seed + 1})
    again = fit_again(other, perturbed, seed=other.seed, memory=memory)
    changed = again.predict() != method.predict()
    silent = ~perturbed.has_label
    return {
        "changed": int(changed.sum()),
        "of": len(changed),
        "silent_changed": int((changed & silent).sum()),
        "silent": int(silent.sum()),
    }


def _degree_names() -> list[str]:
    """Return the groups of degrees as text.

    >>> _degree_names()
    ['0 to 1', '2 to 3', '4 to 7', '8 to 15', '16 or more']
    """
    ends = [f"{low} to {high - 1}" for low, high in itertools.pairwise(_DEGREES)]
    return [*ends, f"{_DEGREES[-1]} or more"]


def _people(
    method: Method, perturbed: PerturbedGraph, answers: _Answers, not_to_ask: Set[str] = frozenset()
) -> pd.DataFrame:
    """Return the people whose answer is uncertain or who sent no label, those whose label would help most first.

    Who withdrew or objected is not among them: nobody asks them again.
    """
    probabilities = answers.probabilities
    without = method.predict_without_own_report(perturbed)
    score = expected_help(perturbed.graph, probabilities.astype(np.float64) if without is None else without)
    names, classes = perturbed.graph.names, perturbed.schema.classes
    asked = np.array([name not in not_to_ask for name in names])
    silent, certain = ~perturbed.has_label, answers.certain
    rank = np.zeros(len(score), dtype=np.int64)
    askable = np.flatnonzero(silent & asked)
    rank[askable[np.argsort(-score[askable], kind="stable")]] = np.arange(1, len(askable) + 1)
    listed = np.flatnonzero((silent | ~certain) & asked)
    listed = listed[np.lexsort((-score[listed], ~silent[listed]))]
    return pd.DataFrame(
        {
            "id": [names[node] for node in listed],
            "class": [classes[code] for code in probabilities[listed].argmax(axis=1)],
            "probability": probabilities[listed].max(axis=1).astype(float).round(6),
            "certain": certain[listed],
            "reported_label": ~silent[listed],
            "degree": perturbed.graph.degrees[listed],
            # A person who reported cannot report again.
            "help_rank": pd.Series(rank[listed]).where(silent[listed]).astype("Int64"),
        }
    )
