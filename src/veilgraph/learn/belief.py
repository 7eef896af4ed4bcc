"""Belief propagation: every node tells its neighbours what it believes without what they told it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from veilgraph.graph import Graph
from veilgraph.reconstruct.operators import operators_of
from veilgraph.reconstruct.propagation import sparse_product

_DAMPING = 0.2
_LEAST = 1e-3
_BLOCK = {"cpu": 2**18, "cuda": 2**27}
"""Numbers of messages made at once: what stays in a processor's cache, what keeps a GPU busy."""

_WIDE = 64


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
        operators, prior = operators_of(self.graph, evidence.device), self.prior.to(evidence.device)
        messages = evidence.new_zeros(2, self.graph.num_edges, evidence[0].numel())
        beliefs, found = evidence, {}
        for sweep in range(1, max(sweeps) + 1):
            self._exchange(messages, beliefs, operators.edge_index[0], kept=damping if sweep > 1 else 0.0)
            beliefs = evidence + sparse_product(operators.arrivals, messages.flatten(0, 1)).view_as(evidence)
            if sweep in sweeps:
                found[sweep] = beliefs + prior.log()
        return found

    def _exchange(self, messages: Tensor, beliefs: Tensor, sources: Tensor, *, kept: float) -> None:
        """Messages [2, |E|, V c] of both directions from beliefs without the prior, one block of edges after another.

        In place: what a block needs of the old messages is what its edges say the other way round.
        """
        tell = self._teller(beliefs)
        # No cavity belief exceeds the largest belief by more than a message can say, so shares stay within range.
        senders = (beliefs - beliefs.amax(dim=2, keepdim=True)).flatten(1)
        ways, strengths = sources.view(2, -1), self.strengths.to(beliefs.device).view(2, -1, 1)
        step = max(1, _BLOCK[beliefs.device.type] // (2 * senders.shape[1]))
        for start in range(0, self.graph.num_edges, step):
            block = slice(start, start + step)
            old = messages[:, block]
            cavity = embedding(ways[:, block], senders).sub_(old.flip(0))
            old.lerp_(tell(cavity, strengths[:, block]), 1 - kept)

    def _teller(self, beliefs: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """The message in terms of cavity beliefs without the prior, [2, edges, V c], and strengths.

        Sums over classes are products with small matrices, one for as many versions as are still fast.
        """
        prior = self.prior.to(beliefs.device)
        whole = _repeated(prior.unsqueeze(1).expand(-1, len(prior)), beliefs.shape[1])
        coupled = None
        if self.coupling is not None:
            coupled = _repeated(prior.unsqueeze(1) * self.coupling.to(beliefs.device).T, beliefs.shape[1])

        def tell(cavity: Tensor, strengths: Tensor) -> Tensor:
            shares = cavity.exp_().view(-1, len(whole))
            ratios = (shares if coupled is None else shares @ coupled).div_(shares @ whole).view_as(cavity)
            return ratios.sub_(1).mul_(strengths).clamp_(min=_LEAST - 1).log1p_()

        return tell


def _repeated(matrix: Tensor, times: int) -> Tensor:
    """A matrix along the diagonal of a larger one, a divisor of `times` times, while that is not too wide."""
    fitting = [copies for copies in range(1, times + 1) if times % copies == 0 and copies * len(matrix) <= _WIDE]
    return torch.kron(torch.eye(max(fitting, default=1), device=matrix.device), matrix.contiguous())


def copying_strengths(graph: Graph, gain: float, *, most: float) -> Tensor:
    r"""Couplings that neither fade nor flood: :math:`t_{uv} = \min(most, gain / \sqrt{d_u d_v})`.

    Around equal beliefs a sweep multiplies them by gain * S, S = D^-1/2 A D^-1/2 having norm 1: evidence grows with
    every sweep at any density, and saturates where beliefs become certain. Edges of a dense graph are many witnesses
    of one thing, not independent ones, which is what a fixed strength would take them for.
    """
    scale = torch.from_numpy(graph.degrees).clamp(min=1).to(torch.float32).rsqrt()
    sources, targets = torch.from_numpy(graph.edge_index)
    return (gain * scale[sources] * scale[targets]).clamp_(max=most)
