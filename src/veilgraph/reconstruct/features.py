"""Algorithm 1: distributions of features in neighbourhoods, estimated from randomized reports."""

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
from veilgraph.privacy.mechanisms import NOT_ASKED, SymmetricChannel
from veilgraph.progress import tracked
from veilgraph.reconstruct.labels import project_to_simplex
from veilgraph.reconstruct.propagation import NeighbourhoodMean
from veilgraph.reconstruct.sparse import block_width

Decoding = Literal["distribution", "argmax"]

_ALL = slice(None)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportCodes:
    """Randomized values of features from reports of any mechanism, as codes of the schema.

    Attributes:
        codes: `[nodes, features]`, the reported code, or NOT_ASKED where a report says nothing about a feature.
        reporting: `[nodes]`, nodes that sent a report.
        channels: channel of each feature, which randomized its code.
        answering_rate: probability that a report says something about a given feature.
    """

    codes: NDArray[Any]
    reporting: NDArray[np.bool_]
    channels: tuple[SymmetricChannel, ...]
    answering_rate: float

    @classmethod
    def of(cls, perturbed: PerturbedGraph) -> ReportCodes:
        """Read the codes from reports; raise a `ReconstructionError` if the mechanism does not report codes."""
        mechanism = perturbed.feature_mechanism
        if mechanism is None:
            raise ReconstructionError("no features were collected: leave feature reconstruction out")
        sizes = perturbed.schema.domain_sizes
        codes = mechanism.codes(perturbed.features, sizes)
        # Features of one domain size have the same channel. Its exact fractions are slow, so compute them once.
        by_size = {size: mechanism.channel(sizes.index(size)) for size in set(sizes)}
        channels = tuple(by_size[size] for size in sizes)
        rate = float(mechanism.answering_rate)
        return cls(codes=codes, reporting=perturbed.has_features, channels=channels, answering_rate=rate)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Entries of `codes` that are randomized values, `[nodes, features]`."""
        answered: NDArray[np.bool_] = self.codes != NOT_ASKED
        return answered & self.reporting[:, None]

    def select_features(self, features: NDArray[np.int64] | slice) -> ReportCodes:
        """Return the codes of some features, in the order given."""
        chosen = range(len(self.channels))[features] if isinstance(features, slice) else features
        return ReportCodes(
            codes=self.codes[:, features],
            reporting=self.reporting,
            channels=tuple(self.channels[i] for i in chosen),
            answering_rate=self.answering_rate,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReconstructedFeatures:
    """x~: estimated share of each value of each feature in each node's K-hop neighbourhood.

    Attributes:
        channels: channel of each feature; its domain size is the feature's number of values, gamma_i.
        frequencies: `[nodes, columns]`, unbiased estimates, not projected. A binary feature has one column (the share
            of value 1), a feature with more values one column for each.
        estimated: False if the frequencies are observed shares, for ablations.
        answering_rate: probability that a report says something about a given feature.
        overall: `[columns]`, share of each column among all reported values; used where there is no report.
    """

    channels: tuple[SymmetricChannel, ...]
    frequencies: Tensor
    estimated: bool
    answering_rate: float
    overall: Tensor = field(repr=False)
    _count_reports: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def sample_sizes(self) -> Tensor:
        """Effective number of reported values behind each node's estimates, `[nodes]`; computed on first access."""
        return self.answering_rate * self._count_reports()

    @cached_property
    def standard_errors(self) -> Tensor:
        """Standard errors `[nodes, columns]` for neighbourhoods drawn from a population."""
        sizes, errors = self.sample_sizes.unsqueeze(1), torch.empty_like(self.frequencies)
        for channel, part in _channels_and_columns(self.channels):
            shares = self.frequencies[:, part]
            estimates = shares if self.estimated else estimate_frequencies(shares, channel)
            scale = 1.0 if self.estimated else float(channel.gain)
            variance = population_variance(estimates, channel, sizes)
            variance += asking_variance(estimates, channel, sizes, anchor=self.overall[part], rate=self.answering_rate)
            errors[:, part] = scale * variance.sqrt()
        return errors

    def inputs(self, decoding: Decoding = "distribution") -> Tensor:
        """Return the inputs of a GNN, `[nodes, columns]`: shares, never the index of a value.

        A binary feature enters as the estimate itself. A feature with more values enters as a distribution
        (projected onto the simplex), or as the one-hot argmax. The latter is the paper's choice and equals a majority
        vote.

        Args:
            decoding: "distribution" or "argmax".
        """
        decode = {"distribution": project_to_simplex, "argmax": _one_hot_argmax}[decoding]
        if self.frequencies.shape[1] == len(self.channels):  # all binary
            return self.frequencies
        features = [self.frequencies[:, part] for _, part in _channels_and_columns(self.channels)]
        return torch.cat([part if part.shape[1] == 1 else decode(part) for part in features], dim=1)


def reconstruct_features(
    perturbed: PerturbedGraph,
    hops: int,
    *,
    mean: NeighbourhoodMean,
    estimate: bool = True,
    max_columns: int | None = None,
) -> ReconstructedFeatures:
    """Reconstruct all features by Algorithm 1: one-hot reports, K hops, then the frequency estimate.

    Nodes without a report have no weight. A node without a report within K hops gets the estimate over the whole
    graph.

    Args:
        perturbed: the graph and its reports.
        hops: K_x.
        mean: neighbourhood mean of the graph, on the device to use.
        estimate: remove the bias of the randomization; False keeps the observed shares, for ablations.
        max_columns: number of columns that are propagated at once; default: `block_width`.
    """
    codes = ReportCodes.of(perturbed)
    reports = int(mean.communicator.all_reduce_sum(torch.tensor(np.count_nonzero(perturbed.has_features))))
    if reports == 0:
        raise ReconstructionError("no node reported features: leave feature reconstruction out")
    frequencies, overall = _shares(codes, reports, hops, mean, max_columns)
    if estimate:
        _estimate_in_place(frequencies, codes.channels, max_columns)

    def count_reports() -> Tensor:
        reporting = torch.from_numpy(perturbed.has_features).to(mean.device)
        sizes = mean.effective_sample_size(reporting, hops)
        return torch.where(sizes > 0, sizes, float(reporting.sum()))

    return ReconstructedFeatures(
        channels=codes.channels,
        frequencies=frequencies,
        estimated=estimate,
        answering_rate=codes.answering_rate,
        overall=overall,
        _count_reports=count_reports,
    )


def one_hot_features(
    perturbed: PerturbedGraph, device: torch.device | str = "cpu", communicator: Communicator = LOCAL
) -> Tensor:
    r"""Return x' one-hot, `[nodes, columns]`; rows are zero where a node reported nothing.

    A binary feature has one column, a feature with gamma values has gamma columns. If only a share r of people is
    asked about a feature, the one-hot entry z of a reported value becomes

    .. math:: c + (z - c) / r

    and the entry of a person who was not asked becomes c, the overall share among the reported values. The mean of
    these entries is that of z: a mean over people estimates what it would if all of them had been asked. The sampling
    of features adds variance only in so far as a neighbourhood differs from the whole graph.
    """
    return _to_float(one_hot_columns(ReportCodes.of(perturbed), communicator=communicator), torch.device(device))


def _to_float(columns: NDArray[np.bool_] | NDArray[np.float32], device: torch.device) -> Tensor:
    """Convert to float32: on a GPU after the transfer of single bytes, on a CPU by numpy, which is faster."""
    if device.type == "cpu":
        return torch.from_numpy(columns.astype(np.float32, copy=False))
    return torch.from_numpy(columns).to(device).to(torch.float32)


def one_hot_columns(
    codes: ReportCodes, part: slice = _ALL, communicator: Communicator = LOCAL
) -> NDArray[np.bool_] | NDArray[np.float32]:
    """Return some of the columns of `one_hot_features`, without a wider copy of the codes.

    Args:
        codes: the reports.
        part: columns to return; default: all.
        communicator: collective operations over the processes that share the graph.
    """
    feature_of, value_of = _feature_and_value(tuple(channel.domain_size for channel in codes.channels))
    all_binary = len(feature_of) == len(codes.channels)  # then columns are features, and a slice is not a copy
    selected = codes.select_features(part if all_binary else feature_of[part])
    hits: NDArray[np.bool_] = selected.codes == as_code_type(value_of[part], selected.codes.dtype)
    if not codes.reporting.all():
        hits &= codes.reporting[:, None]
    if codes.answering_rate == 1:
        return hits
    columns = hits.astype(np.float32)
    asked, uniform = selected.asked, np.array([1 / channel.domain_size for channel in selected.channels])
    people = communicator.all_reduce_sum(torch.from_numpy(asked.sum(axis=0))).numpy()
    holding = communicator.all_reduce_sum(torch.from_numpy(columns.sum(axis=0))).numpy()
    overall = np.where(people > 0, holding / np.maximum(people, 1), uniform).astype(np.float32)
    columns = np.where(asked, overall + (columns - overall) / np.float32(codes.answering_rate), overall)
    return np.where(codes.reporting[:, None], columns, np.float32(0))


@lru_cache(maxsize=16)
def _feature_and_value(domain_sizes: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the feature and the value of each column; the column of a binary feature is for value 1."""
    widths = [num_columns(size) for size in domain_sizes]
    values = [np.arange(width) if width > 1 else np.ones(1, dtype=np.int64) for width in widths]
    return np.repeat(np.arange(len(widths)), widths), np.concatenate(values)


def as_code_type(values: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert values to the type of codes if it can hold them, so that numpy compares without widening all codes."""
    stored = values.astype(dtype)
    return stored if np.array_equal(stored, values) else values


def num_columns(domain_size: int) -> int:
    """Return the number of columns of a feature; the shares of two values are one number."""
    return 1 if domain_size == 2 else domain_size


def _channels_and_columns(channels: Sequence[SymmetricChannel]) -> Iterator[tuple[SymmetricChannel, slice]]:
    """Yield the channel and the columns of each feature."""
    start = 0
    for channel in channels:
        yield channel, slice(start, start := start + num_columns(channel.domain_size))


def _estimate_in_place(shares: Tensor, channels: Sequence[SymmetricChannel], max_columns: int | None) -> None:
    """Replace shares by estimates, a few columns at a time, so that no copy of the table is needed."""
    alike = all(channel is channels[0] for channel in channels)
    width = max_columns or block_width(shares.device, shares.shape[0])
    parts = (
        [(channels[0], part) for part in _blocks(shares.shape[1], width)] if alike else _channels_and_columns(channels)
    )
    for channel, part in parts:
        estimate_frequencies(shares[:, part], channel, in_place=True)


def _shares(
    codes: ReportCodes, reports: int, hops: int, mean: NeighbourhoodMean, max_columns: int | None
) -> tuple[Tensor, Tensor]:
    """Return means over the reporting nodes of each neighbourhood, and over all reporting nodes.

    Columns are propagated in blocks, so that only the result has the size of the whole table.

    Returns:
        Shares `[nodes, columns]` and overall shares `[columns]`.
    """
    width = sum(num_columns(channel.domain_size) for channel in codes.channels)
    communicator, nodes = mean.communicator, mean.num_nodes
    mass = None
    if reports < communicator.global_nodes(nodes):
        reporting = torch.from_numpy(codes.reporting).to(mean.device)
        mass = mean.propagate(reporting.to(torch.float32).unsqueeze(1), hops)
    overall = torch.empty(width, device=mean.device)

    def share_of(part: slice) -> Tensor:
        observed = _to_float(one_hot_columns(codes, part, communicator), mean.device)
        overall[part] = communicator.all_reduce_sum(observed.sum(0)) / reports
        propagated = mean.propagate(observed, hops)
        if mass is None:
            return propagated
        within = propagated / mass.clamp(min=torch.finfo(mass.dtype).tiny)
        return torch.where(mass > 0, within, overall[part])

    blocks = _blocks(width, max_columns or block_width(mean.device, communicator.max_extended_rows(nodes)))
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
