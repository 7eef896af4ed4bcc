"""Every method that an experiment can name: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from veilgraph.errors import RunError
from veilgraph.models.base import Method
from veilgraph.models.baselines import MajorityClass, PlainGNN
from veilgraph.models.lpgnn import LPGNN
from veilgraph.models.rgnn import RGNN
from veilgraph.models.structure_only import StructureOnly
from veilgraph.models.veil import LabelVeil, Veil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import (
    FeatureRandomizer,
    MechanismEntry,
    grr_fs,
    grr_on_all,
    joint_grr_best,
    multi_bit,
    multi_bit_best,
)
from veilgraph.privacy.schema import FeatureSchema


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """How an experiment runs a method.

    Attributes:
        title: in tables.
        make: the estimator, from keyword parameters.
        parameters: the parameters that `make` understands; others of a grid do not concern the method.
        features: how features are randomized for it; None where a collection for it does not ask for them.
        private: False for the ceiling, whose reports are the records.
        revision: raised whenever the method gives other results than before, so that old ones are not taken for its.
    """

    title: str
    make: Callable[..., Method]
    parameters: frozenset[str] = frozenset()
    features: FeatureRandomizer | None = grr_fs
    private: bool = True
    revision: int = 0

    @property
    def uses_features(self) -> bool:
        """Whether feature reports are needed at all."""
        return self.features is not None

    def budget(
        self, schema: FeatureSchema, epsilon_x: float | None, epsilon_y: float | None, sampled: int
    ) -> PrivacyBudget:
        """What a person spends on this method; features that nobody needs are sampled once, at no matter what."""
        if not self.private:
            return PrivacyBudget.not_private(schema.num_features)
        if epsilon_y is None:
            raise RunError(f"{self.title} is private: give it an epsilon_y")
        if epsilon_x is None and self.uses_features:
            raise RunError(f"{self.title} uses features: give it an epsilon_x")
        return PrivacyBudget(1.0 if epsilon_x is None else epsilon_x, epsilon_y, min(sampled, schema.num_features))


_VEIL_REVISION = 2
_TRAINING = frozenset({"dropout", "learning_rate", "weight_decay", "epochs", "seed", "device"})
_VEIL = frozenset({"seed", "device"})
_HOPS = frozenset({"feature_hops", "label_hops"})
_RGNN = (
    _TRAINING
    | _HOPS
    | {
        "backbone",
        "num_clusters",
        "llp_weight",
        "decoding",
        "reconstruct_x",
        "reconstruct_y",
        "use_proportions",
        "estimate",
    }
)


def _plain(backbone: str) -> Callable[..., Method]:
    return lambda **parameters: PlainGNN(backbone=backbone, **parameters)


METHODS: dict[str, MethodEntry] = {
    "rgnn": MethodEntry(title="RGNN", make=RGNN, parameters=_RGNN),
    "plain": MethodEntry(title="Plain GNN on reports", make=PlainGNN, parameters=_TRAINING | {"backbone"}),
    "graphsage": MethodEntry(title="GraphSAGE on reports", make=_plain("sage"), parameters=_TRAINING),
    "gcn": MethodEntry(title="GCN on reports", make=_plain("gcn"), parameters=_TRAINING),
    "gat": MethodEntry(title="GAT on reports", make=_plain("gat"), parameters=_TRAINING),
    "lpgnn": MethodEntry(
        title="LPGNN, the paper's budget",
        make=LPGNN,
        parameters=_TRAINING | _HOPS | {"backbone"},
        features=multi_bit,
    ),
    "lpgnn_equal": MethodEntry(
        title="LPGNN, best m at equal user-level epsilon",
        make=LPGNN,
        parameters=_TRAINING | _HOPS | {"backbone"},
        features=multi_bit_best,
    ),
    "veil": MethodEntry(title="Veil", make=Veil, parameters=_VEIL, revision=_VEIL_REVISION),
    "veil_equal": MethodEntry(
        title="Veil, joint GRR features at equal user-level epsilon",
        make=Veil,
        parameters=_VEIL,
        features=joint_grr_best,
        revision=_VEIL_REVISION,
    ),
    "veil_labels": MethodEntry(
        title="Veil without features", make=LabelVeil, parameters=_VEIL, features=None, revision=_VEIL_REVISION
    ),
    "structure_only": MethodEntry(
        title="Control: structure only", make=StructureOnly, parameters=frozenset({"device"}), features=None
    ),
    "majority": MethodEntry(title="Majority class", make=MajorityClass, features=None),
    "non_private": MethodEntry(
        title="Non-private GNN", make=PlainGNN, parameters=_TRAINING | {"backbone"}, private=False
    ),
}

# The same learner on other reports, at the user-level epsilon (any two records) that m * epsilon_x names.
_EQUAL_EPSILON: dict[str, MechanismEntry] = {
    "grr_on_all": grr_on_all,
    "multi_bit": multi_bit_best,
    "joint_grr": joint_grr_best,
}
METHODS |= {
    f"{learner}_{suffix}": replace(
        METHODS[learner], title=f"{METHODS[learner].title}, {features.title}", features=features
    )
    for learner in ("rgnn", "veil")
    for suffix, features in _EQUAL_EPSILON.items()
    if (learner, suffix) != ("veil", "joint_grr")  # which is veil_equal
}


def find_method(name: str) -> MethodEntry:
    """The entry of a method, or a clear refusal.

    >>> find_method("rgnn").title
    'RGNN'
    """
    if name not in METHODS:
        raise RunError(f"there is no method '{name}': known are {', '.join(METHODS)}")
    return METHODS[name]


def make_method(name: str, parameters: dict[str, Any]) -> Method:
    """The estimator with those of the parameters that it understands."""
    entry = find_method(name)
    return entry.make(**{key: value for key, value in parameters.items() if key in entry.parameters})
