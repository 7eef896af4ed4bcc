"""Belief propagation: every node tells its neighbours what it believes without what they told it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.reconstruct.propagation import sparse_csr

_DAMPING = 0.2
_LEAST = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class BeliefPropagation:
    r"""The sum-product algorithm for classes on a graph.

    A message is what a neighbour's class says of a node's own. With cavity beliefs b, class prior pi, a coupling K
    (how much likelier than chance two classes are to be joined) and a strength t for each edge it is

    .. math:: m_{u \to v}(x) = \ln \left( 1 + t_{uv} \left( \sum_y K_{xy} b_{u \setminus v}(y) - 1 \right) \right)

    On a tree, undamped and with as many sweeps as its diameter, beliefs are the exact posterior of the model
    P(classes) = prod_v pi(x_v) prod_{uv} [1 + t_uv (K(x_u, x_v) - 1)]. Elsewhere they count evidence that arrives by
    several paths as often as it arrives.

    Args:
        graph: the public graph.
        prior: pi.
        coupling: K, with sum_y K_xy pi_y = 1; None where a neighbour copies the class with probability t and
            draws from pi otherwise, which is K = diag(1 / pi).
        strengths: t of both directions of every edge, as `Graph.edge_index` lists them.
    """

    graph: Graph
    prior: Tensor
    strengths: Tensor
    coupling: Tensor | None = None

    def sweep(self, evidence: Tensor, sweeps: Sequence[int], *, damping: float = _DAMPING) -> dict[int, Tensor]:
        """Log-beliefs [n, V, c] after each of these numbers of sweeps, from the log-evidence of every node."""
        nodes, versions, classes = evidence.shape
        sources, targets = torch.from_numpy(self.graph.edge_index)
        directed, edges = len(sources), self.graph.num_edges
        gather = sparse_csr(targets, torch.arange(directed), torch.ones(directed), (nodes, directed))
        base = evidence + self.prior.log()
        beliefs, found = base, {}
        messages = torch.zeros(directed, versions, classes)
        for sweep in range(1, max(sweeps) + 1):
            cavity = beliefs.index_select(0, sources)
            cavity[:edges] -= messages[edges:]
            cavity[edges:] -= messages[:edges]
            told = self._messages(cavity)
            messages = told if sweep == 1 else messages.lerp_(told, 1 - damping)
            beliefs = base + (gather @ messages.reshape(directed, -1)).reshape(nodes, versions, classes)
            if sweep in sweeps:
                found[sweep] = beliefs
        return found

    def _messages(self, cavity: Tensor) -> Tensor:
        """In place: for a graph of a million edges each copy counts."""
        cavity -= cavity.amax(dim=2, keepdim=True)
        beliefs = cavity.exp_()
        beliefs /= beliefs.sum(dim=2, keepdim=True)
        ratios = beliefs.div_(self.prior) if self.coupling is None else beliefs @ self.coupling.T
        return ratios.sub_(1).mul_(self.strengths.view(-1, 1, 1)).add_(1).clamp_(min=_LEAST).log_()


def copying_strengths(graph: Graph, gain: float, *, most: float) -> Tensor:
    r"""Couplings that neither fade nor flood: :math:`t_{uv} = \min(most, gain / \sqrt{d_u d_v})`.

    Around equal beliefs a sweep multiplies them by gain * S, S = D^-1/2 A D^-1/2 having norm 1: evidence grows with
    every sweep at any density, and saturates where beliefs become certain. Edges of a dense graph are many witnesses
    of one thing, not independent ones, which is what a fixed strength would take them for.
    """
    scale = torch.from_numpy(graph.degrees).clamp(min=1).to(torch.float32).rsqrt()
    sources, targets = torch.from_numpy(graph.edge_index)
    return (gain * scale[sources] * scale[targets]).clamp_(max=most)
