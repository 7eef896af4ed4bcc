"""Belief propagation (the sum-product algorithm) for the classes of nodes, and the class affinity that it assumes.

The affinity says which classes edges join. It is estimated from randomized labels at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding

from veilgraph.graph import Graph
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.labels import project_to_simplex
from veilgraph.reconstruct.operators import operators_of
from veilgraph.reconstruct.sparse import sparse_product

_DAMPING = 0.2
_MIN_RATIO = 1e-3
_RAREST = 0.2
_MIN_AFFINITY = 0.02
_BLOCK_ENTRIES = {"cpu": 2**18, "cuda": 2**27}
"""Message entries computed at once: on a CPU they fit the cache, on a GPU they keep it busy."""

_MessageFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class BeliefPropagation:
    r"""The sum-product algorithm for classes on a graph.

    A message is the log-likelihood of a node's class from one neighbour. With cavity beliefs b (beliefs without the
    message of the receiver), class prior pi, class affinity K and a strength t of each edge it is

    .. math:: m_{u \to v}(x) = \ln \left( 1 + t_{uv} \left( \sum_y K_{xy} b_{u \setminus v}(y) - 1 \right) \right)

    On a tree, without damping and with at least as many iterations as its diameter, beliefs are the exact posterior of
    P(classes) = prod_v pi(x_v) prod_{uv} [1 + t_uv (K(x_u, x_v) - 1)]. On a graph with cycles they count evidence once
    for each path on which it arrives.

    Args:
        graph: The public graph.
        prior: pi, [classes].
        edge_strengths: t of both directions of every edge, in the order of `Graph.edge_index`.
        affinity: K [classes, classes], with sum_y K_xy pi_y = 1. None means K = diag(1 / pi): a neighbour copies the
            class with probability t and draws it from pi otherwise.
        block_entries: Number of message entries computed at once; None chooses it by the device.
        max_block_width: Width up to which several training sets share one small matrix product.
    """

    graph: Graph
    prior: Tensor
    edge_strengths: Tensor
    affinity: Tensor | None = None
    block_entries: int | None = None
    max_block_width: int = 64

    def to(self, device: torch.device) -> BeliefPropagation:
        """Return a copy with its tensors on a device."""
        affinity = None if self.affinity is None else self.affinity.to(device)
        return replace(
            self, prior=self.prior.to(device), edge_strengths=self.edge_strengths.to(device), affinity=affinity
        )

    def propagate(self, evidence: Tensor, iterations: Sequence[int], *, damping: float = _DAMPING) -> dict[int, Tensor]:
        """Return the log-beliefs [nodes, K + 1, classes] after each of the given numbers of iterations.

        Args:
            evidence: Log-likelihood of each node's own report, [nodes, K + 1, classes].
            iterations: Numbers of iterations.
            damping: Weight of the previous message.
        """
        operators, new_messages = operators_of(self.graph, evidence.device), self._message_function(evidence.shape[1])
        messages = evidence.new_zeros(2, self.graph.num_edges, evidence[0].numel())
        beliefs, results = evidence, {}
        for iteration in range(1, max(iterations) + 1):
            # A cavity belief exceeds the largest belief by at most one message: its exponential stays in range.
            senders = (beliefs - beliefs.amax(dim=2, keepdim=True)).flatten(1)
            kept = damping if iteration > 1 else 0.0
            self._update_messages(messages, senders, operators.edge_index[0], new_messages, damping=kept)
            beliefs = evidence + sparse_product(operators.target_incidence, messages.flatten(0, 1)).view_as(evidence)
            if iteration in iterations:
                results[iteration] = beliefs + self.prior.log()
        return results

    def _update_messages(
        self, messages: Tensor, senders: Tensor, sources: Tensor, new_messages: _MessageFunction, *, damping: float
    ) -> None:
        """Replace the messages [2, edges, (K + 1) classes] of both directions in place, in blocks of edges.

        A block needs the old messages of its own edges only, in the opposite direction.
        """
        directions, strengths = sources.view(2, -1), self.edge_strengths.view(2, -1, 1)
        entries = self.block_entries or _BLOCK_ENTRIES[messages.device.type]
        step = max(1, entries // (2 * messages.shape[2]))
        for start in range(0, self.graph.num_edges, step):
            block = slice(start, start + step)
            old = messages[:, block]
            cavity = embedding(directions[:, block], senders).sub_(old.flip(0))
            old.lerp_(new_messages(cavity, strengths[:, block]), 1 - damping)

    def _message_function(self, training_sets: int) -> _MessageFunction:
        """Return the function from log cavity beliefs relative to the prior, and strengths, to messages.

        Sums over classes are products with small block-diagonal matrices.
        """
        total = self._block_diagonal(self.prior.unsqueeze(1).expand(-1, len(self.prior)), training_sets)
        weighted = None
        if self.affinity is not None:
            weighted = self._block_diagonal(self.prior.unsqueeze(1) * self.affinity.T, training_sets)

        def new_messages(cavity: Tensor, strengths: Tensor) -> Tensor:
            beliefs = cavity.exp_().view(-1, len(total))
            ratios = (beliefs if weighted is None else beliefs @ weighted).div_(beliefs @ total).view_as(cavity)
            return ratios.sub_(1).mul_(strengths).clamp_(min=_MIN_RATIO - 1).log1p_()

        return new_messages

    def _block_diagonal(self, matrix: Tensor, times: int) -> Tensor:
        """Repeat a matrix along a diagonal: the largest divisor of `times` that keeps it within the maximal width."""
        divisors = [copies for copies in range(1, times + 1) if times % copies == 0]
        fitting = [copies for copies in divisors if copies * len(matrix) <= self.max_block_width]
        return torch.kron(torch.eye(max(fitting, default=1), device=matrix.device), matrix.contiguous())


def degree_scaled_strengths(graph: Graph, gain: float, *, maximum: float) -> Tensor:
    r"""Return edge strengths :math:`t_{uv} = \min(maximum, gain / \sqrt{d_u d_v})` of both directions, [2 edges].

    Near uniform beliefs, one iteration multiplies them by gain * S, and S = D^-1/2 A D^-1/2 has norm 1. Evidence grows
    with every iteration at any density and saturates where beliefs become certain. A constant strength would treat the
    many edges of a dense graph as independent evidence.
    """
    scale = torch.from_numpy(graph.degrees).clamp(min=1).to(torch.float32).rsqrt()
    sources, targets = torch.from_numpy(graph.edge_index)
    return (gain * scale[sources] * scale[targets]).clamp_(max=maximum)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassAffinity:
    """Ratio of the probability that an edge joins two classes to that of independent ends.

    Attributes:
        matrix: K [classes, classes], 1 where the classes of the ends are independent.
        end_shares: Class shares of the ends of edges, [classes].
        spectral_radius: Largest change of a belief that one edge can transmit: the spectral radius of
            (K - 1) diag(end_shares).
        uniformly_assortative: Whether every class attracts itself equally; then no matrix is needed.
    """

    matrix: Tensor
    end_shares: Tensor
    spectral_radius: float
    uniformly_assortative: bool


def estimate_class_affinity(labels: CrossFitting) -> ClassAffinity | None:
    r"""Estimate the affinity from edges with a report at both ends; return None if there are none.

    Ends are randomized independently. With J' the observed joint shares and f' their margins, the covariance of the
    true classes at the two ends is :math:`(J' - f' f'^T) / (p - q)^2`. It is the sum of a uniformly assortative part,
    r (diag(f) - f f^T), and a residual. Of the residual, the share that noise does not explain is kept.
    """
    joint, pairs = _observed_pairs(labels)
    if pairs == 0:
        return None
    gain, classes = labels.keep - labels.other, labels.num_classes
    margin = joint.sum(1)
    covariance = (joint - torch.outer(margin, margin)) / gain**2
    ends = project_to_simplex((margin - labels.other) / gain).clamp(min=_RAREST / classes)
    ends = ends / ends.sum()
    assortative = torch.diag(ends) - torch.outer(ends, ends)
    attraction = float((covariance * assortative).sum() / assortative.square().sum())
    residual = covariance - attraction * assortative
    noise = (classes * (classes - 1) / 2 - 1) * float(torch.outer(margin, margin).mean()) / (pairs * gain**4)
    kept = max(0.0, 1 - 2 * noise / max(float(residual.square().sum()), 1e-12)) if classes > 2 else 0.0
    error = float((assortative.square() * torch.outer(margin, margin)).sum() / pairs) ** 0.5 / gain**2
    error /= float(assortative.square().sum())
    matrix = 1 + (attraction * assortative + kept * residual) / torch.outer(ends, ends)
    matrix = matrix.clamp(min=_MIN_AFFINITY)
    return ClassAffinity(
        matrix=matrix,
        end_shares=ends,
        spectral_radius=float(torch.linalg.eigvals((matrix - 1) * ends).abs().max()),
        uniformly_assortative=attraction > -2 * error and kept == 0.0,
    )


def _observed_pairs(labels: CrossFitting) -> tuple[Tensor, int]:
    """Return the joint shares of reports at the two ends of an edge [classes, classes], and the number of edges."""
    sources, targets = torch.from_numpy(labels.perturbed.graph.edges)
    reporting = torch.from_numpy(labels.perturbed.has_label)
    both = reporting[sources] & reporting[targets]
    reported = torch.from_numpy(labels.perturbed.labels)
    codes = reported[sources[both]] * labels.num_classes + reported[targets[both]]
    counts = torch.bincount(codes, minlength=labels.num_classes**2).reshape(labels.num_classes, -1).float()
    pairs = int(both.sum())
    return (counts + counts.T) / max(2 * pairs, 1), pairs
