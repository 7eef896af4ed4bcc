"""The registry of methods: every method that an experiment, a table or a deployment can name."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from veilgraph.errors import FitError, RunError, nearest_names
from veilgraph.models.base import Method
from veilgraph.models.baselines import MajorityClass, PlainGNN
from veilgraph.models.lpgnn import LPGNN
from veilgraph.models.neighbour_waves import NeighbourWaves
from veilgraph.models.rgnn import RGNN
from veilgraph.models.structure_only import StructureOnly
from veilgraph.models.veil import LabelVeil, Veil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import FeatureMechanism, Mechanism
from veilgraph.privacy.mechanisms.registry import MechanismEntry, grr_fs, joint_grr_best, multi_bit, multi_bit_best
from veilgraph.privacy.schema import FeatureSchema

MethodT = TypeVar("MethodT", bound=Method)


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A method of the registry.

    Attributes:
        title: Name in tables.
        abbreviation: Name in the head of a column or in a legend; empty if it is the title.
        description: What the method reads, in one line.
        estimator: Class of the method.
        fixed: Constructor parameters that the entry sets, such as the backbone. An experiment cannot vary them.
        features: Mechanism that randomizes features; None if the method needs no feature reports.
        private: False for a method that reads the records themselves.
        revision: Raised whenever the method gives other results than before, so that stored results are not reused.
        code: Hash of the code of a method of the reader's own, for the same reason; empty for methods of this package.
    """

    title: str
    abbreviation: str = ""
    description: str = ""
    estimator: type[Method]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    features: MechanismEntry[FeatureMechanism] | None = grr_fs
    private: bool = True
    revision: int = 0
    code: str = ""

    @property
    def short_title(self) -> str:
        """Name in the head of a column or in a legend."""
        return self.abbreviation or self.title

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the constructor parameters that an experiment can set."""
        return frozenset(inspect.signature(self.estimator).parameters) - self.fixed.keys()

    @property
    def uses_features(self) -> bool:
        """Whether the method needs feature reports."""
        return self.features is not None

    def make(self, parameters: Mapping[str, Any]) -> Method:
        """Return an estimator with these parameters; those that it does not have are ignored."""
        known = {name: value for name, value in parameters.items() if name in self.parameters}
        return self.estimator(**self.fixed, **known)

    def budget(
        self, schema: FeatureSchema, epsilon_x: float | None, epsilon_y: float | None, sampled: int
    ) -> PrivacyBudget:
        """Return the privacy budget of a report; `sampled` is capped at the number of features.

        It is for the label alone where the method needs no features, or the schema has none.
        """
        if not self.private:
            return PrivacyBudget.not_private(schema.num_features)
        if epsilon_y is None:
            raise RunError(f"{self.title} is private: give it an epsilon_y")
        if not self.uses_features or not schema.num_features:
            return PrivacyBudget(epsilon_y=epsilon_y)
        if epsilon_x is None:
            if self.estimator.unmet_need(None) is None:
                return PrivacyBudget(epsilon_y=epsilon_y)
            raise RunError(f"{self.title} uses features: give it an epsilon_x")
        return PrivacyBudget(epsilon_x, epsilon_y, min(sampled, schema.num_features))


_RGNN = MethodEntry(
    title="RGNN",
    description="randomized features and labels, reconstructed over the graph",
    estimator=RGNN,
)
_PLAIN = MethodEntry(
    title="Plain GNN on reports",
    description="randomized features and labels, as they were reported",
    estimator=PlainGNN,
)
_LPGNN = MethodEntry(
    title="LPGNN, the paper's budget",
    abbreviation="LPGNN",
    description="multi-bit features and randomized labels, both propagated over the graph",
    estimator=LPGNN,
    features=multi_bit,
)
_VEIL = MethodEntry(
    title="Veil",
    description="randomized features and labels, in one posterior with the graph",
    estimator=Veil,
    revision=16,
)


def _plain_with(backbone: str, title: str) -> MethodEntry:
    return replace(_PLAIN, title=f"{title} on reports", abbreviation=title, fixed={"backbone": backbone})


METHODS: dict[str, MethodEntry] = {
    "rgnn": _RGNN,
    "plain": _PLAIN,
    "graphsage": _plain_with("sage", "GraphSAGE"),
    "gcn": _plain_with("gcn", "GCN"),
    "gat": _plain_with("gat", "GAT"),
    "lpgnn": _LPGNN,
    "lpgnn_equal": replace(
        _LPGNN,
        title="LPGNN, best m at equal user-level epsilon",
        abbreviation="LPGNN, best m",
        features=multi_bit_best,
    ),
    "veil": _VEIL,
    "veil_equal": replace(
        _VEIL,
        title="Veil, joint GRR features at equal user-level epsilon",
        abbreviation="Veil, joint GRR",
        features=joint_grr_best,
    ),
    "veil_labels": replace(
        _VEIL,
        title="Veil without features",
        abbreviation="Veil, label alone",
        description="randomized labels, in one posterior with the graph; no features",
        estimator=LabelVeil,
        features=None,
    ),
    "structure_only": MethodEntry(
        title="Control: structure only",
        abbreviation="Control",
        description="randomized labels and the graph; no features",
        estimator=StructureOnly,
        features=None,
    ),
    "neighbour_waves": MethodEntry(
        title="Private neighbours",
        description="randomized labels, answers about neighbour lists, public columns, and features if asked; no edge",
        estimator=NeighbourWaves,
        features=joint_grr_best,
        revision=1,
    ),
    "majority": MethodEntry(
        title="Majority class",
        abbreviation="Majority",
        description="randomized labels alone: the same class for everyone",
        estimator=MajorityClass,
        features=None,
    ),
    "non_private": MethodEntry(
        title="Non-private GNN",
        abbreviation="Non-private",
        description="true features and labels: not a private method",
        estimator=PlainGNN,
        private=False,
    ),
    "veil_non_private": replace(
        _VEIL,
        title="Non-private Veil",
        abbreviation="Veil, not private",
        description="true features and labels, in one posterior with the graph: not a private method",
        private=False,
    ),
}


def register_method(
    *, title: str, description: str = "", features: MechanismEntry[FeatureMechanism] | None = None
) -> Callable[[type[MethodT]], type[MethodT]]:
    """Return a decorator that adds a method of your own to the registry under its `name`.

    Every command, experiment and table of this process can then name it. A cell that is run again after an edit
    registers the class again, and results of the earlier code are not reused. A name of this package is refused.

    Args:
        title: name in tables.
        description: what the method reads, in one line.
        features: mechanism that randomizes features; default: GRR-FS if the method uses features.

    >>> @register_method(title="Majority again")
    ... class Again(MajorityClass):
    ...     name = "again"
    >>> find_method("again").title, METHODS.pop("again").uses_features
    ('Majority again', False)
    """

    def register(method: type[MethodT]) -> type[MethodT]:
        known = METHODS.get(method.name)
        if known is not None and known.estimator.__module__.startswith(f"{__package__}."):
            raise RunError(f"'{method.name}' is a method of this package: give yours another name")
        randomizer = features or (grr_fs if method.uses_features else None)
        METHODS[method.name] = MethodEntry(
            title=title, description=description, estimator=method, features=randomizer, code=_code_hash(method)
        )
        return method

    return register


def _code_hash(method: type[Method]) -> str:
    """Return a hash of the file of a class, or of the class alone where it was typed; empty if neither is known."""
    module = inspect.getmodule(method)
    try:
        source = inspect.getsource(module if getattr(module, "__file__", None) and module is not None else method)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode()).hexdigest()


def find_method(name: str) -> MethodEntry:
    """Return the entry of a method; an unknown name is refused with the nearest known ones.

    >>> find_method("rgnn").title
    'RGNN'
    """
    if name not in METHODS:
        raise RunError(f"there is no method '{name}': known are {', '.join(METHODS)}{nearest_names(name, METHODS)}")
    return METHODS[name]


def make_method(name: str, parameters: Mapping[str, Any]) -> Method:
    """Return the estimator of a method with these parameters; those that it does not have are ignored."""
    return find_method(name).make(parameters)


def methods_for_campaign(features: Mechanism | None, *, has_edges: bool = True) -> dict[str, MethodEntry]:
    """Return the methods that can learn from the reports of a campaign, by name.

    Entries that differ in the mechanism of the features alone are one method here, because the campaign has chosen.

    Args:
        features: mechanism that randomizes the campaign's features; None if it collects none.
        has_edges: whether the server learns on a graph; without one, from answers about private neighbours.

    >>> list(methods_for_campaign(None))
    ['veil', 'veil_labels', 'structure_only', 'majority']
    >>> list(methods_for_campaign(None, has_edges=False))
    ['neighbour_waves']
    """
    names: dict[Hashable, str] = {}
    for name, entry in METHODS.items():
        if entry.private and not _unmet(entry.estimator, features, has_edges=has_edges):
            names.setdefault((entry.estimator, *entry.fixed.items()), name)
    return {name: METHODS[name] for name in names.values()}


def find_method_for_campaign(name: str, features: Mechanism | None, *, has_edges: bool = True) -> MethodEntry:
    """Return the entry of a method; refuse one that cannot learn from the reports of a campaign.

    >>> find_method_for_campaign("rgnn", None)
    Traceback (most recent call last):
    veilgraph.errors.FitError: rgnn needs feature reports, which the campaign does not collect: choose veil, \
veil_labels, structure_only or majority
    """
    offered = methods_for_campaign(features, has_edges=has_edges)
    if name not in offered:
        need = _unmet(METHODS[name].estimator, features, has_edges=has_edges) if name in METHODS else None
        reason = (
            f"{name} needs {need}, which the campaign does not collect"
            if need
            else f"there is no method '{name}' for collected reports"
        )
        *others, last = offered
        raise FitError(f"{reason}: choose {', '.join(others)} or {last}" if others else f"{reason}: choose {last}")
    return offered[name]


def _unmet(method: type[Method], features: Mechanism | None, *, has_edges: bool) -> str | None:
    return method.unmet_graph(has_edges=has_edges) or method.unmet_need(features)
