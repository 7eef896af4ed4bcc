"""RGNN as the paper prints it, loop for loop: the baseline of speed measurements and a reference for tests.

Every loop of the pseudocode of Algorithms 1 to 3 is a loop here: over people for the randomizers, over features for
the propagation, over nodes and clusters for the bags. In each epoch every layer is computed from its inputs, and every
bag is a slice. Nothing is shared between features, epochs or runs. Inside the loops, PyTorch and PyTorch Geometric do
the work in their usual way. So the comparison is between ways to organise the computation, not between languages.
Only `node_hop` is the innermost loop as printed, for tests.
"""

from __future__ import annotations

import copy
import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veilgraph.graph import Graph

Hop = Callable[[Tensor], Tensor]
"""One hop: replaces every row by the mean over its node's closed neighbourhood."""

_FLOOR = 1e-6


def grr_probabilities(domain_size: int, epsilon: float) -> tuple[float, float]:
    """Return p and q of generalized randomized response."""
    total = math.exp(epsilon) + domain_size - 1
    return math.exp(epsilon) / total, 1 / total


def transitions(classes: int, epsilon: float) -> Tensor:
    """Return the matrix P [classes, classes]: p on the diagonal, q elsewhere."""
    p, q = grr_probabilities(classes, epsilon)
    return torch.full((classes, classes), q) + torch.eye(classes) * (p - q)


def grr(value: int, domain_size: int, epsilon: float, rng: np.random.Generator) -> int:
    """Randomize one value: keep it with probability p, replace it by each other one with probability q."""
    p, _ = grr_probabilities(domain_size, epsilon)
    return value if rng.random() < p else int(value + rng.integers(1, domain_size)) % domain_size


def randomize_features(
    records: NDArray[Any], domain_sizes: Sequence[int], epsilon: float, sampled: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Randomize records [people, features] by GRR-FS, person by person: m features by GRR, the others uniform."""
    reports = np.empty_like(records)
    for v in range(len(records)):
        reports[v] = rng.integers(0, domain_sizes)
        for i in rng.choice(len(domain_sizes), sampled, replace=False):
            reports[v, i] = grr(int(records[v, i]), domain_sizes[i], epsilon, rng)
    return reports


def randomize_labels(
    labels: NDArray[np.int64], labelled: NDArray[np.bool_], classes: int, epsilon: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Randomize the label of every labelled node by GRR; return 0 for the others."""
    return np.array(
        [grr(int(y), classes, epsilon, rng) if known else 0 for y, known in zip(labels, labelled, strict=True)]
    )


def node_hop(graph: Graph) -> Hop:
    """Return a hop as printed: for every node, the mean over itself and its neighbours."""
    closed: list[list[int]] = [[v] for v in range(graph.num_nodes)]
    for u, v in graph.edges.T.tolist():
        closed[u].append(v)
        closed[v].append(u)
    return lambda rows: torch.stack([rows[around].mean(dim=0) for around in closed])


def message_hop(graph: Graph, device: torch.device | str = "cpu") -> Hop:
    """Return a hop by a layer of PyTorch Geometric: a message along every edge, and the mean at every node."""
    layer = layers().SimpleConv(aggr="mean")
    loops = np.tile(np.arange(graph.num_nodes), (2, 1))
    edges = torch.from_numpy(np.concatenate([graph.edge_index, loops], axis=1)).to(device)
    return lambda rows: layer(rows, edges)


def product_hop(matrix: Tensor) -> Hop:
    """Return a hop as a product with a given sparse matrix: a faster form of the same loop."""
    return lambda rows: matrix @ rows


def propagate(rows: Tensor, hop: Hop, hops: int) -> Tensor:
    """Apply K hops to rows [nodes, columns]."""
    for _ in range(hops):
        rows = hop(rows)
    return rows


def feature_frequencies(
    hop: Hop,
    reports: NDArray[np.integer],
    domain_sizes: Sequence[int],
    epsilon: float,
    sampled: int,
    hops: int,
    device: torch.device | str = "cpu",
) -> list[Tensor]:
    """Run Algorithm 1 up to its argmax: return, for each feature, pi~ [nodes, values]."""
    d, m = len(domain_sizes), sampled
    estimates = []
    for i, gamma in enumerate(domain_sizes):
        column = torch.from_numpy(reports[:, i].astype(np.int64)).to(device)
        observed = propagate(nn.functional.one_hot(column, gamma).to(torch.float32), hop, hops)
        p, q = grr_probabilities(gamma, epsilon)
        estimates.append(d * observed / (m * (p - q)) + (m - d - m * gamma * q) / (m * gamma * (p - q)))
    return estimates


def feature_inputs(estimates: Sequence[Tensor]) -> Tensor:
    """Return the GNN's inputs: the share of value 1 of a binary feature, the one-hot argmax of any other."""
    columns = [
        each[:, 1:] if each.shape[1] == 2 else nn.functional.one_hot(each.argmax(1), each.shape[1])
        for each in estimates
    ]
    return torch.cat([each.to(torch.float32) for each in columns], dim=1)


def label_frequencies(
    hop: Hop,
    labels: NDArray[np.integer],
    labelled: NDArray[np.bool_],
    classes: int,
    epsilon: float,
    hops: int,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Run Algorithm 2 up to its argmax: pi~ = P^-1 lambda' [nodes, classes], one labelled node after another."""
    known = torch.from_numpy(labelled).to(device)
    rows = nn.functional.one_hot(torch.from_numpy(labels.astype(np.int64)).to(device), classes).to(torch.float32)
    observed = propagate(rows * known.unsqueeze(1), hop, hops)
    inverse = torch.linalg.inv(transitions(classes, epsilon)).to(device)
    estimates = torch.zeros_like(observed)
    for v in np.flatnonzero(labelled).tolist():
        estimates[v] = inverse @ observed[v]
    return estimates


def bag_frequencies(
    clusters: NDArray[np.int64],
    labels: NDArray[np.integer],
    members: NDArray[np.bool_],
    classes: int,
    epsilon: float,
) -> dict[int, tuple[list[int], Tensor]]:
    """Return each bag's labelled members and P^-1 b' (Algorithm 3, lines 4 and 7), by a loop over nodes per bag."""
    inverse = torch.linalg.inv(transitions(classes, epsilon))
    cluster_of, label_of, counts = clusters.tolist(), labels.tolist(), members.tolist()
    bags: dict[int, tuple[list[int], Tensor]] = {}
    for r in range(max(cluster_of) + 1):
        inside, totals = [], [0.0] * classes
        for v in range(len(cluster_of)):
            if cluster_of[v] == r and counts[v]:
                inside.append(v)
                totals[label_of[v]] += 1
        if inside:
            bags[r] = (inside, inverse @ (torch.tensor(totals) / len(inside)))
    return bags


def simplex(estimates: Tensor) -> Tensor:
    """Return the nearest distribution, by sorted partial sums (Held, Wolfe and Crowder 1974)."""
    falling = estimates.sort(descending=True).values
    surplus = (falling.cumsum(0) - 1) / torch.arange(1, len(falling) + 1)
    last = int((falling > surplus).nonzero().max())
    return (estimates - surplus[last]).clamp(min=0)


def bag_loss(probabilities: Tensor, bags: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the mean divergence of the bags' mean predictions (Algorithm 3, lines 10 and 12), bag after bag."""
    losses = []
    for members, target in bags:
        predicted = probabilities[members].mean(0).clamp(min=_FLOOR)
        losses.append((predicted * (predicted / target.clamp(min=_FLOOR)).log()).sum())
    return torch.stack(losses).mean()


def structure_only(
    graph: Graph, reports: Tensor, restarts: Sequence[float], steps: Sequence[int], agreement: Callable[[Tensor], float]
) -> tuple[float, int]:
    """Return the restart and steps of the control: one propagation for every pair; ties go to the first pair."""
    sources, targets = torch.from_numpy(graph.edge_index).to(reports.device)
    scale = torch.from_numpy(graph.degrees).clamp(min=1).to(reports.device, torch.float32).rsqrt()
    weights = (scale[sources] * scale[targets]).unsqueeze(1)
    best, chosen = -math.inf, (restarts[0], steps[0])
    for count in steps:
        for restart in restarts:
            scores = reports
            for _ in range(count):
                arrived = torch.zeros_like(scores).index_add_(0, targets, weights * scores[sources])
                scores = (1 - restart) * arrived + restart * reports
            if (found := agreement(scores)) > best:
                best, chosen = found, (restart, count)
    return chosen


class Sage(nn.Module):
    """Two GraphSAGE layers of PyTorch Geometric with ReLU and dropout between them."""

    def __init__(self, num_inputs: int, hidden: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.first = layers().SAGEConv(num_inputs, hidden)
        self.second = layers().SAGEConv(hidden, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return class scores (logits), [nodes, classes]."""
        scores: Tensor = self.second(self.dropout(self.first(x, edge_index).relu()), edge_index)
        return scores


@dataclass(kw_only=True)
class Training:
    """Algorithm 3, lines 8 to 13, and the selection of an epoch on randomized validation labels.

    Attributes:
        module: The GNN.
        inputs: x~, [nodes, inputs].
        edge_index: Both directions of every edge, [2, 2 edges].
        train: Indices of the training nodes.
        targets: Reconstructed classes of the training nodes.
        validation: Indices of the validation nodes.
        reported: Randomized classes of the validation nodes.
        transitions: P of the label, [classes, classes].
        bags: Members and proportions b~ of each bag.
        llp_weight: Weight alpha of the bag loss.
        learning_rate: Learning rate of Adam.
        losses: Loss of each epoch.
        scores: Validation score after each epoch.
    """

    module: nn.Module
    inputs: Tensor
    edge_index: Tensor
    train: Tensor
    targets: Tensor
    validation: Tensor
    reported: Tensor
    transitions: Tensor
    bags: Sequence[tuple[Tensor, Tensor]]
    llp_weight: float = 1.0
    learning_rate: float = 0.01
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._optimizer = torch.optim.Adam(self.module.parameters(), lr=self.learning_rate)
        self._best: dict[str, Any] = {}

    def epoch(self) -> None:
        """Do one step, score the weights in a pass without dropout, and keep the best weights."""
        self.module.train()
        self._optimizer.zero_grad()
        scores = self.module(self.inputs, self.edge_index)
        loss = nn.functional.cross_entropy(scores[self.train], self.targets)
        loss = loss + self.llp_weight * bag_loss(scores.softmax(dim=1), self.bags)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.losses.append(float(loss.detach()))
        self.scores.append(self._score())
        if self.scores[-1] >= max(self.scores):
            self._best = copy.deepcopy(self.module.state_dict())

    def predict(self) -> Tensor:
        """Return class probabilities [nodes, classes] with the best weights."""
        self.module.load_state_dict(self._best)
        return self._probabilities()

    def _score(self) -> float:
        chances = self._probabilities()[self.validation] @ self.transitions
        return float(chances.gather(1, self.reported.unsqueeze(1)).clamp(min=_FLOOR).log().mean())

    def _probabilities(self) -> Tensor:
        self.module.eval()
        with torch.no_grad():
            probabilities: Tensor = self.module(self.inputs, self.edge_index).softmax(dim=1)
        return probabilities


def layers() -> Any:
    """Import and return torch_geometric.nn."""
    with warnings.catch_warnings():
        # torch_geometric still compiles parts of itself with torch.jit, which torch calls deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        return importlib.import_module("torch_geometric.nn")
