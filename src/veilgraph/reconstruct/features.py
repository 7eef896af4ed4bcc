"""Algorithm 1: feature distributions of neighbourhoods, estimated from randomized reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import ReconstructionError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import asking_variance, estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import SymmetricChannel
from veilgraph.progress import tracked
from veilgraph.reconstruct.propagation import NeighbourhoodMean
from veilgraph.reconstruct.report_codes import Answers, answers_of
from veilgraph.reconstruct.simplex import project_to_simplex
from veilgraph.reconstruct.sparse import block_width

Decoding = Literal["distribution", "argmax"]

_ALL = slice(None)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReconstructedFeatures:
    """x~: for each node, the estimated share of each value of each feature in its K-hop neighbourhood.

    Attributes:
        channels: of each feature; a channel knows its feature's number of values, gamma_i.
        frequencies: unbiased estimates, not projected. A binary feature has one column (the share of value 1),
            a feature with more values one column for each.
        estimated: False where the frequencies are observed shares, for ablations.
        answering_rate: the share of reporting people who are asked about a given feature.
        overall: the share of each column among all answers, which stands in where nobody was asked.
    """

    channels: tuple[SymmetricChannel, ...]
    frequencies: Tensor
    estimated: bool
    answering_rate: float
    overall: Tensor = field(repr=False)
    _count_reports: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def sample_sizes(self) -> Tensor:
        """How many answers each node's estimate is worth; counted when wanted, since training never does."""
        return self.answering_rate * self._count_reports()

    @cached_property
    def standard_errors(self) -> Tensor:
        """Of each estimate, for neighbourhoods drawn from a population."""
        sizes, errors = self.sample_sizes.unsqueeze(1), torch.empty_like(self.frequencies)
        for channel, part in _parts(self.channels):
            shares = self.frequencies[:, part]
            estimates = shares if self.estimated else estimate_frequencies(shares, channel)
            scale = 1.0 if self.estimated else float(channel.gain)
            variance = population_variance(estimates, channel, sizes)
            variance += asking_variance(estimates, channel, sizes, anchor=self.overall[part], rate=self.answering_rate)
            errors[:, part] = scale * variance.sqrt()
        return errors

    def of_feature(self, feature: int) -> Tensor:
        """The columns of one feature."""
        return self.frequencies[:, list(_parts(self.channels))[feature][1]]

    def inputs(self, decoding: Decoding = "distribution") -> Tensor:
        """What a GNN gets: numbers that mean shares, never a value's index.

        A binary feature enters as the estimate itself. A feature with more values enters as a distribution
        (projected onto the simplex), or as the one-hot argmax, which is the paper's choice and equals a plain
        majority vote.
        """
        decode = {"distribution": project_to_simplex, "argmax": _one_hot_argmax}[decoding]
        if self.frequencies.shape[1] == len(self.channels):  # all binary
            return self.frequencies
        features = [self.frequencies[:, part] for _, part in _parts(self.channels)]
        return torch.cat([part if part.shape[1] == 1 else decode(part) for part in features], dim=1)


def reconstruct_features(
    perturbed: PerturbedGraph, hops: int, *, mean: NeighbourhoodMean, estimate: bool = True
) -> ReconstructedFeatures:
    """Algorithm 1 for all features at once: one-hot reports, K hops, then the frequency estimate.

    Nodes without a report have no weight. A node with no report in reach falls back to the estimate over the whole
    graph. With `estimate=False` the observed shares are kept (propagation without estimation, for ablations).

    Args:
        perturbed: the graph and its reports.
        hops: K_x.
        mean: the graph's neighbourhood mean, on the device to use.
        estimate: undo the mechanism's bias.
    """
    answers = answers_of(perturbed)
    reports = int(mean.communicator.all_reduce_sum(torch.tensor(np.count_nonzero(perturbed.has_features))))
    if reports == 0:
        raise ReconstructionError("no node reported features: leave feature reconstruction out")
    frequencies, overall = _shares(answers, reports, hops, mean)
    if estimate:
        _estimate_in_place(frequencies, answers.channels)

    def count_reports() -> Tensor:
        reporting = torch.from_numpy(perturbed.has_features).to(mean.device)
        sizes = mean.effective_sample_size(reporting, hops)
        return torch.where(sizes > 0, sizes, float(reporting.sum()))

    return ReconstructedFeatures(
        channels=answers.channels,
        frequencies=frequencies,
        estimated=estimate,
        answering_rate=answers.rate,
        overall=overall,
        _count_reports=count_reports,
    )


def one_hot_reports(
    perturbed: PerturbedGraph, device: torch.device | str = "cpu", communicator: Communicator = LOCAL
) -> Tensor:
    r"""x' as columns: one for a binary feature, gamma for a feature with gamma values; zero where not reported.

    Where only a share r of people is asked about a feature, an answer's column z becomes

    .. math:: c + (z - c) / r

    and c where there is none, c being the overall share among the answers. Its mean is that of z, so that a mean over
    people estimates what it would if all of them had answered, and being asked or not adds variance only in so far as
    a neighbourhood differs from the whole.
    """
    return _as_numbers(_columns(answers_of(perturbed), communicator=communicator), torch.device(device))


def _as_numbers(columns: NDArray[np.bool_] | NDArray[np.float32], device: torch.device) -> Tensor:
    """Bytes travel to a GPU and become numbers there; on a processor numpy converts them faster than torch."""
    if device.type == "cpu":
        return torch.from_numpy(columns.astype(np.float32, copy=False))
    return torch.from_numpy(columns).to(device).to(torch.float32)


def _columns(
    answers: Answers, part: slice = _ALL, communicator: Communicator = LOCAL
) -> NDArray[np.bool_] | NDArray[np.float32]:
    """Some of the columns of all features; codes stay as they are stored, most often a byte each."""
    feature_of, value_of = _meaning(tuple(channel.domain_size for channel in answers.channels))
    one_each = len(feature_of) == len(answers.channels)  # then columns are features, and a part of them no copy
    here = answers.about(part if one_each else feature_of[part])
    hits: NDArray[np.bool_] = here.codes == _as_stored(value_of[part], here.codes.dtype)
    if not answers.reporting.all():
        hits &= answers.reporting[:, None]
    if answers.rate == 1:
        return hits
    columns = hits.astype(np.float32)
    asked, uniform = here.asked, np.array([1 / channel.domain_size for channel in here.channels])
    people = communicator.all_reduce_sum(torch.from_numpy(asked.sum(axis=0))).numpy()
    holding = communicator.all_reduce_sum(torch.from_numpy(columns.sum(axis=0))).numpy()
    overall = np.where(people > 0, holding / np.maximum(people, 1), uniform).astype(np.float32)
    columns = np.where(asked, overall + (columns - overall) / np.float32(answers.rate), overall)
    return np.where(answers.reporting[:, None], columns, np.float32(0))


@lru_cache(maxsize=16)
def _meaning(domain_sizes: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The feature and the value that each column is about; of a binary feature it is value 1."""
    widths = [num_columns(size) for size in domain_sizes]
    values = [np.arange(width) if width > 1 else np.ones(1, dtype=np.int64) for width in widths]
    return np.repeat(np.arange(len(widths)), widths), np.concatenate(values)


def _as_stored(values: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values as codes are stored, if they can be: numpy would widen every code to compare it with a larger number."""
    stored = values.astype(dtype)
    return stored if np.array_equal(stored, values) else values


def num_columns(domain_size: int) -> int:
    """Columns that a feature needs: the shares of two values are one number."""
    return 1 if domain_size == 2 else domain_size


def _parts(channels: Sequence[SymmetricChannel]) -> Iterator[tuple[SymmetricChannel, slice]]:
    """Each feature's channel and columns."""
    start = 0
    for channel in channels:
        yield channel, slice(start, start := start + num_columns(channel.domain_size))


def _estimate_in_place(shares: Tensor, channels: Sequence[SymmetricChannel]) -> None:
    """A few columns at a time: nothing as large as the table is made beside it."""
    alike = all(channel is channels[0] for channel in channels)
    width = block_width(shares.device, shares.shape[0])
    parts = [(channels[0], part) for part in _blocks(shares.shape[1], width)] if alike else _parts(channels)
    for channel, part in parts:
        estimate_frequencies(shares[:, part], channel, in_place=True)


def _shares(answers: Answers, reports: int, hops: int, mean: NeighbourhoodMean) -> tuple[Tensor, Tensor]:
    """Mean over the reporting nodes of each neighbourhood, and over all of them, which is used where there is none.

    As many columns at a time as go through a product best: only the result is as large as the table.
    """
    width = sum(num_columns(channel.domain_size) for channel in answers.channels)
    communicator, nodes = mean.communicator, mean.num_nodes
    mass = None
    if reports < communicator.global_nodes(nodes):
        reporting = torch.from_numpy(answers.reporting).to(mean.device)
        mass = mean.propagate(reporting.to(torch.float32).unsqueeze(1), hops)
    overall = torch.empty(width, device=mean.device)

    def share_of(part: slice) -> Tensor:
        observed = _as_numbers(_columns(answers, part, communicator), mean.device)
        overall[part] = communicator.all_reduce_sum(observed.sum(0)) / reports
        propagated = mean.propagate(observed, hops)
        if mass is None:
            return propagated
        within = propagated / mass.clamp(min=torch.finfo(mass.dtype).tiny)
        return torch.where(mass > 0, within, overall[part])

    blocks = _blocks(width, block_width(mean.device, communicator.max_extended_rows(nodes)))
    if len(blocks) == 1:
        return share_of(blocks[0]), overall
    shares = torch.empty(nodes, width, device=mean.device)
    for part in tracked(blocks, "features, blocks of columns"):
        shares[:, part] = share_of(part)
    return shares, overall


def _blocks(columns: int, width: int) -> list[slice]:
    return [slice(start, start + width) for start in range(0, columns, width)]


def _one_hot_argmax(estimates: Tensor) -> Tensor:
    return one_hot(estimates.argmax(dim=1), estimates.shape[1]).to(estimates.dtype)
