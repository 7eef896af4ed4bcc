"""A transform for torch_geometric that replaces the true records of a `Data` object by simulated reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilgraph.datasets import PrivateGraph
from veilgraph.experiments.simulation import simulate
from veilgraph.graph import Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, LabelRandomizer, best_label_mechanism, grr_fs
from veilgraph.privacy.schema import FeatureSchema

_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True, kw_only=True)
class Randomize:
    """Replace `x` and `y` of a `Data` object by reports; the result holds no true value (`PerturbedGraph.to_data`).

    Features are encoded by the declared values or bins, see `PrivateGraph.from_data`. Nodes of `train_mask` and
    `val_mask` report their label. Without masks, a random split of the seed decides. The masks are kept.

    Args:
        schema: declared features and classes.
        budget: epsilons, and the number of sampled features.
        seed: seed of the reports, and of the split where the data have none.
        features: makes the feature mechanism.
        label: makes the label mechanism.
    """

    schema: FeatureSchema
    budget: PrivacyBudget
    seed: int = 0
    features: FeatureRandomizer = grr_fs
    label: LabelRandomizer = best_label_mechanism

    def __call__(self, data: Any) -> Any:
        """Return a new `Data` object with the reports."""
        split, rng = Split.from_data(data, seed=self.seed), np.random.default_rng(self.seed)
        records = PrivateGraph.from_data(data, self.schema)
        reports = simulate(records, self.budget, split, rng=rng, features=self.features, label=self.label).to_data()
        for name, nodes in zip(_MASKS, (split.train, split.validation, split.test), strict=True):
            reports[name] = reports.has_label.new_tensor(nodes)
        return reports
