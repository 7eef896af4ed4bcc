"""Reports of a folder of shards that several processes share, none of which holds more than its part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import perturbed_graph_of_codes
from veilgraph.deploy.shard_reports import perturbed_from_shards, read_shard_codes
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.shard_part import ShardHomes, ShardPart
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.shards import ShardFolder


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedReports:
    """The reports of this process's part of the graph.

    Attributes:
        perturbed: the reports on the part.
        homes: which process reads which shard.
        to_homes: sends values of the part's nodes to the processes that read their shards.
    """

    perturbed: PerturbedGraph
    homes: ShardHomes
    to_homes: Callable[[NDArray[Any]], NDArray[Any]] = field(repr=False)

    @classmethod
    def read(
        cls, folder: ShardFolder, campaign: Campaign, exchange: Exchange, *, bag_counts: tuple[int, ...] = ()
    ) -> SharedReports:
        """Read the part of this process; a single process reads the whole graph."""
        homes = ShardHomes(folder=folder, exchange=exchange)
        if exchange.world_size == 1:
            perturbed = perturbed_from_shards(campaign, folder, folder.graph())
            return cls(perturbed=perturbed, homes=homes, to_homes=lambda rows: rows)
        part = ShardPart.read(folder, exchange)
        codes = [read_shard_codes(folder, shard, folder.nodes(shard).keys, campaign) for shard in part.homes.shards]
        arrays: dict[str, Any] = {
            name: part.from_homes(np.concatenate([getattr(each, name) for each in codes]))
            for name in ("features", "labels", "has_features", "has_label")
        }
        here = replace(codes[0], **arrays)
        del codes, arrays
        perturbed = perturbed_graph_of_codes(campaign, part.graph_part(bag_counts), here)
        return cls(perturbed=perturbed, homes=homes, to_homes=_WayHome(part.homes, part.rows.numbers))


@dataclass(frozen=True)
class _WayHome:
    """Sends values of a part's nodes to the processes that read their shards; it does not keep the part's rows."""

    homes: ShardHomes
    numbers: NDArray[np.int64]

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of this home's nodes, in the order of its shards."""
        to = self.homes.of_numbers(self.numbers)
        arrived, _ = self.homes.exchange.send(self.numbers, to)
        return self.homes.exchange.send(values, to)[0][np.argsort(arrived)]
