"""Belief propagation: every node tells its neighbours what it believes without what they told it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

_Teller = Callable[[Tensor, Tensor], Tensor]


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

    def to(self, device: torch.device) -> BeliefPropagation:
        """The same, for evidence on a device."""
        coupling = None if self.coupling is None else self.coupling.to(device)
        return replace(self, prior=self.prior.to(device), strengths=self.strengths.to(device), coupling=coupling)

    def sweep(self, evidence: Tensor, sweeps: Sequence[int], *, damping: float = _DAMPING) -> dict[int, Tensor]:
        """Log-beliefs [n, V, c] after each of these numbers of sweeps, from the log-evidence of every node."""
        operators, tell = operators_of(self.graph, evidence.device), self._teller(versions=evidence.shape[1])
        messages = evidence.new_zeros(2, self.graph.num_edges, evidence[0].numel())
        beliefs, found = evidence, {}
        for sweep in range(1, max(sweeps) + 1):
            # No cavity belief exceeds the largest belief by more than a message can say: shares stay within range.
            senders = (beliefs - beliefs.amax(dim=2, keepdim=True)).flatten(1)
            self._exchange(messages, senders, operators.edge_index[0], tell, kept=damping if sweep > 1 else 0.0)
            beliefs = evidence + sparse_product(operators.arrivals, messages.flatten(0, 1)).view_as(evidence)
            if sweep in sweeps:
                found[sweep] = beliefs + self.prior.log()
        return found

    def _exchange(self, messages: Tensor, senders: Tensor, sources: Tensor, tell: _Teller, *, kept: float) -> None:
        """New messages [2, |E|, V c] of both directions in place of the old, one block of edges after another.

        What a block needs of the old ones is what its own edges say the other way round.
        """
        ways, strengths = sources.view(2, -1), self.strengths.view(2, -1, 1)
        step = max(1, _BLOCK[messages.device.type] // (2 * messages.shape[2]))
        for start in range(0, self.graph.num_edges, step):
            block = slice(start, start + step)
            old = messages[:, block]
            cavity = embedding(ways[:, block], senders).sub_(old.flip(0))
            old.lerp_(tell(cavity, strengths[:, block]), 1 - kept)

    def _teller(self, *, versions: int) -> _Teller:
        """Messages from logarithms of b / pi and strengths; sums over classes are products with small matrices."""
        total = _repeated(self.prior.unsqueeze(1).expand(-1, len(self.prior)), versions)
        coupled = None
        if self.coupling is not None:
            coupled = _repeated(self.prior.unsqueeze(1) * self.coupling.T, versions)

        def tell(cavity: Tensor, strengths: Tensor) -> Tensor:
            shares = cavity.exp_().view(-1, len(total))
            ratios = (shares if coupled is None else shares @ coupled).div_(shares @ total).view_as(cavity)
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
