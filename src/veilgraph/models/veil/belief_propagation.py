"""Belief propagation (the sum-product algorithm) for the classes of nodes on a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding

from veilgraph.graph import Graph
from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.threads import map_in_threads

_DAMPING = 0.2
_MIN_RATIO = 1e-3
_LOG2_E = 1 / math.log(2)
_LEAST = -100.0
"""Exponentials are to base 2 and not below 2^-100: others take ten times as long where they are close to 0."""

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
        graph: The public graph, or a part of it: beliefs of neighbours elsewhere are exchanged in every sweep.
        prior: pi, [classes].
        edge_strengths: t of every edge [edges], in the order of `GraphOperators.edges`, or one number for all, [1].
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
    max_block_width: int = 24

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
        messages, beliefs, results = self.no_messages(evidence), evidence, dict[int, Tensor]()
        for iteration in tracked(range(1, max(iterations) + 1), "Veil, belief propagation, iterations"):
            beliefs = evidence + self.sweep(messages, beliefs, damping=damping if iteration > 1 else 0.0)
            if iteration in iterations:
                results[iteration] = beliefs + self.prior.log()
        return results

    def no_messages(self, evidence: Tensor) -> Tensor:
        """Return messages that say nothing, [2, edges, (K + 1) classes]."""
        edges = operators_of(self.graph, evidence.device).message_graph.num_edges
        return evidence.new_zeros(2, edges, evidence[0].numel())

    def sweep(self, messages: Tensor, beliefs: Tensor, *, damping: float) -> Tensor:
        """Replace all messages in place once; return the sum of those that arrive at each node.

        Args:
            messages: Messages of both directions of every edge, [2, edges, (K + 1) classes].
            beliefs: Log-beliefs relative to the prior that contain these messages, [nodes, K + 1, classes].
            damping: Weight of the previous message.
        """
        operators, new_messages = operators_of(self.graph, beliefs.device), self._message_function(beliefs.shape[1])
        # A cavity belief exceeds the largest belief by at most one message: its exponential stays in range.
        senders = (beliefs - beliefs.amax(dim=2, keepdim=True)).mul_(_LOG2_E).clamp_(min=_LEAST).flatten(1)
        senders = operators.communicator.exchange_halo(senders)
        self._update_messages(messages, senders, operators.edges, new_messages, damping=damping)
        return operators.arriving(messages.flatten(0, 1)).view_as(beliefs)

    def _update_messages(
        self, messages: Tensor, senders: Tensor, sources: Tensor, new_messages: _MessageFunction, *, damping: float
    ) -> None:
        """Replace the messages [2, edges, (K + 1) classes] of both directions in place, in blocks of edges.

        A block needs the old messages of its own edges only, in the opposite direction. So threads share the blocks.

        Args:
            messages: The messages.
            senders: Beliefs relative to the largest, logarithms to base 2, [nodes, (K + 1) classes].
            sources: Sending node of every message, [2, edges].
            new_messages: Function from cavity beliefs and strengths.
            damping: Weight of the previous message.
        """
        edges = messages.shape[1]
        strengths = self.edge_strengths.expand(edges).unsqueeze(1)
        entries = self.block_entries or _BLOCK_ENTRIES[messages.device.type]
        step = max(1, entries // (2 * messages.shape[2]))

        def update(start: int) -> None:
            block = slice(start, start + step)
            old = messages[:, block]
            cavity = embedding(sources[:, block], senders)
            for direction in (0, 1):
                cavity[direction].sub_(old[1 - direction], alpha=_LOG2_E)
            old.lerp_(new_messages(cavity, strengths[block]), 1 - damping)

        map_in_threads(update, range(0, edges, step), "Veil, blocks of messages")

    def _message_function(self, training_sets: int) -> _MessageFunction:
        """Return the function from cavity beliefs relative to the prior (logarithms to base 2) and strengths.

        It returns messages. Sums over classes are a product with the prior; a product with ones repeats them.
        """
        classes = len(self.prior)
        repeated = torch.eye(training_sets).to(self.prior).repeat_interleave(classes, dim=1)
        weighted = None
        if self.affinity is not None:
            weighted = self._block_diagonal(self.prior.unsqueeze(1) * self.affinity.T, training_sets)

        def new_messages(cavity: Tensor, strengths: Tensor) -> Tensor:
            beliefs = cavity.exp2_().view(-1, classes)
            totals = (beliefs @ self.prior).view(*cavity.shape[:2], training_sets)
            ratios = beliefs if weighted is None else beliefs.view(-1, len(weighted)) @ weighted
            scale = torch.div(strengths, totals, out=totals) @ repeated
            return ratios.view_as(cavity).mul_(scale).sub_(strengths).clamp_(min=_MIN_RATIO - 1).log1p_()

        return new_messages

    def _block_diagonal(self, matrix: Tensor, times: int) -> Tensor:
        """Repeat a matrix along a diagonal: the largest divisor of `times` that keeps it within the maximal width."""
        divisors = [copies for copies in range(1, times + 1) if times % copies == 0]
        fitting = [copies for copies in divisors if copies * len(matrix) <= self.max_block_width]
        return torch.kron(torch.eye(max(fitting, default=1), device=matrix.device), matrix.contiguous())


def degree_scaled_strengths(operators: GraphOperators, gain: float, *, maximum: float) -> Tensor:
    r"""Return edge strengths :math:`t_{uv} = \min(maximum, gain / \sqrt{d_u d_v})`, [edges].

    Near uniform beliefs, one iteration multiplies them by gain * S, and S = D^-1/2 A D^-1/2 has norm 1. Evidence grows
    with every iteration at any density and saturates where beliefs become certain. A constant strength would treat the
    many edges of a dense graph as independent evidence.
    """
    graph = operators.message_graph
    degrees = torch.from_numpy(graph.strengths).to(operators.device)
    scale = degrees.where(degrees > 0, 1).to(torch.float32).rsqrt()
    sources, targets = operators.edges
    strengths = scale[sources].mul_(gain).mul_(scale[targets])
    if graph.edge_weights is not None:
        strengths.mul_(torch.from_numpy(graph.edge_weights).to(strengths))
    return strengths.clamp_(max=maximum)
