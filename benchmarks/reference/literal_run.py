"""One whole run of RGNN by the paper's loops: randomize, cluster, reconstruct, train, predict."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.reference import literal
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import BudgetError
from veilgraph.experiments.simulation import simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, Mechanism
from veilgraph.privacy.mechanisms.registry import grr_fs
from veilgraph.reconstruct import cluster


def literal_run(
    private: PrivateGraph, budget: PrivacyBudget, split: Split, settings: RGNN, device: torch.device
) -> NDArray[np.int64]:
    """Return the predicted class of every node, [nodes]."""
    training = literal_training(literal_reports(private, budget, split, settings.seed), budget, split, settings, device)
    for _ in range(settings.epochs):
        training.epoch()
    predicted: NDArray[np.int64] = training.predict().argmax(dim=1).cpu().numpy()
    return predicted


def literal_reports(private: PrivateGraph, budget: PrivacyBudget, split: Split, seed: int) -> PerturbedGraph:
    """Randomize features and labels (Algorithm 3, lines 1 and 2)."""
    rng, schema = np.random.default_rng(seed), private.schema
    labels = literal.randomize_labels(private.labels, split.labelled, schema.num_classes, budget.epsilon_y, rng)
    mechanism = _grr_fs(grr_fs(schema, budget))
    features = literal.randomize_features(
        private.features, schema.domain_sizes, mechanism.epsilon, mechanism.sampled, rng
    )
    label = GRR(schema.num_classes, budget.epsilon_y)
    return simulated_collection(private, split, label, labels, mechanism, features)


def literal_training(
    perturbed: PerturbedGraph, budget: PrivacyBudget, split: Split, settings: RGNN, device: torch.device
) -> literal.Training:
    """Reconstruct and prepare the training (Algorithm 3, lines 3 to 7); torch draws weights and dropout."""
    graph, schema, mechanism = perturbed.graph, perturbed.schema, _grr_fs(perturbed.feature_mechanism)
    classes, sizes = schema.num_classes, schema.domain_sizes
    members = split.train & perturbed.has_label
    bags = literal.bag_frequencies(
        cluster(graph, settings.num_clusters), perturbed.labels, members, classes, budget.epsilon_y
    )
    hop = literal.message_hop(graph, device)
    inputs = literal.feature_inputs(
        literal.feature_frequencies(
            hop, perturbed.features, sizes, mechanism.epsilon, mechanism.sampled, settings.hops[0], device
        )
    )
    estimates = literal.label_frequencies(
        hop, perturbed.labels, perturbed.has_label, classes, budget.epsilon_y, settings.hops[1], device
    )
    train = torch.from_numpy(np.flatnonzero(members)).to(device)
    validation = np.flatnonzero(split.validation & perturbed.has_label)
    return literal.Training(
        module=literal.Sage(inputs.shape[1], HIDDEN, classes, settings.dropout).to(device),
        inputs=inputs,
        edge_index=torch.from_numpy(graph.edge_index).to(device),
        train=train,
        targets=estimates[train].argmax(dim=1),
        validation=torch.from_numpy(validation).to(device),
        reported=torch.from_numpy(perturbed.labels[validation]).to(device),
        transitions=literal.transitions(classes, budget.epsilon_y).to(device),
        bags=[
            (torch.tensor(inside, device=device), literal.simplex(share).to(device)) for inside, share in bags.values()
        ],
        llp_weight=settings.llp_weight,
        learning_rate=settings.learning_rate,
    )


def _grr_fs(mechanism: Mechanism | None) -> GRRFS:
    if not isinstance(mechanism, GRRFS):
        raise BudgetError("the paper's loops randomize features by GRR-FS: give a budget for features")
    return mechanism
