"""The registry of feature mechanisms: commands, experiments and documents know a mechanism by its name here.

Each entry makes its mechanism from the same three numbers: the domain sizes, m and epsilon_x. Entries that choose m
themselves keep the user-level epsilon m * epsilon_x (any two records).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, get_args

from veilgraph.errors import BudgetError, nearest_names
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.budget import ONCE, PrivacyBudget, RoundBudget, check_sampled
from veilgraph.privacy.mechanisms.base import FeatureMechanism, LabelMechanism, Mechanism
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.grr_fs import GRRFS
from veilgraph.privacy.mechanisms.joint_grr import JointGRR
from veilgraph.privacy.mechanisms.longitudinal_features import LongitudinalFeatures
from veilgraph.privacy.mechanisms.longitudinal_grr import LongitudinalGRR
from veilgraph.privacy.mechanisms.multi_bit import MultiBit
from veilgraph.privacy.mechanisms.neighbourhood import NeighbourMechanism
from veilgraph.privacy.mechanisms.neighbourhood_class import NeighbourhoodClass
from veilgraph.privacy.mechanisms.neighbourhood_histogram import NeighbourhoodHistogram
from veilgraph.privacy.mechanisms.randomized_neighbour_list import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.subset_selection import SubsetSelection
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema

LPGNN_BEST_EPSILON = 2.18
"""Budget of each sampled feature at which multi-bit estimates vary least, by LPGNN's analysis."""

FeatureRandomizer = Callable[[FeatureSchema, PrivacyBudget], FeatureMechanism]
"""A function that makes the feature mechanism of a schema and a budget; entries of the registry are."""

LabelOnce = GRR | SubsetSelection
"""A mechanism by which a campaign may ask for the label once."""

LabelRandomizer = Callable[[int, float], LabelMechanism]
"""A function that makes the label mechanism of a number of classes and an epsilon: `GRR`, `best_label_mechanism`."""


M_co = TypeVar("M_co", bound=Mechanism, covariant=True)


@dataclass(frozen=True, kw_only=True)
class MechanismEntry(Generic[M_co]):
    """A mechanism that can be named.

    Attributes:
        name: name on the command line.
        title: name in tables.
        factory: makes the mechanism from the domain sizes, m (at most their number) and epsilon_x.
    """

    name: str
    title: str
    factory: Callable[[tuple[int, ...], int, float], M_co]

    def __call__(self, schema: FeatureSchema, budget: PrivacyBudget) -> M_co:
        """Make the mechanism for the features of a schema; a budget that does not fit them is refused."""
        if budget.epsilon_x is None or budget.sampled is None:
            raise BudgetError("the budget is for the label alone: give epsilon_x and sampled to collect features")
        sampled = check_sampled(budget.sampled, schema.num_features) if schema.num_features else budget.sampled
        return self.make(schema.domain_sizes, sampled, budget.epsilon_x)

    def make(self, domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> M_co:
        """Make the mechanism from the domain sizes, m and epsilon_x; a larger m than there are features means all.

        >>> grr_fs.make((2, 3), 10, 1.0)
        GRRFS(domain_sizes=(2, 3), sampled=2, epsilon=1.0)
        """
        if not domain_sizes:
            raise BudgetError("there are no features to randomize: leave epsilon_x and sampled out")
        return self.factory(domain_sizes, min(sampled, len(domain_sizes)), epsilon)


def _grr_on_all(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> GRRFS:
    num_features = len(domain_sizes)
    return GRRFS(domain_sizes, sampled=num_features, epsilon=sampled * epsilon / num_features)


def _joint_grr_best(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> JointGRR:
    return JointGRR.best(domain_sizes, sampled * epsilon)


def _multi_bit(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> MultiBit:
    """Make the mechanism of LPGNN for codes, which count as numbers."""
    lower, upper = (0.0,) * len(domain_sizes), tuple(size - 1.0 for size in domain_sizes)
    return MultiBit(lower, upper, sampled=sampled, epsilon=epsilon)


def _multi_bit_best(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> MultiBit:
    total = sampled * epsilon
    best = max(1, min(len(domain_sizes), round(total / LPGNN_BEST_EPSILON)))
    return _multi_bit(domain_sizes, best, total / best)


def best_label_mechanism(num_classes: int, epsilon: float) -> LabelOnce:
    """Return the label mechanism whose reports carry most information: label sets, or GRR where sets of one are best.

    >>> best_label_mechanism(18, 1.0), best_label_mechanism(4, 1.0)
    (SubsetSelection(domain_size=18, epsilon=1.0, size=6), GRR(domain_size=4, epsilon=1.0))
    """
    sets = SubsetSelection(num_classes, epsilon)
    return sets if sets.set_size > 1 else GRR(num_classes, epsilon)


def _one_value(name: str, domain_sizes: tuple[int, ...]) -> int:
    if len(domain_sizes) != 1:
        raise BudgetError(
            f"{name} randomizes one value, not {len(domain_sizes)}: give one feature, or choose joint-grr"
        )
    return domain_sizes[0]


def _subset_selection(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> SubsetSelection:
    return SubsetSelection(_one_value("subset-selection", domain_sizes), epsilon=epsilon)


def _grr(domain_sizes: tuple[int, ...], sampled: int, epsilon: float) -> GRR:
    return GRR(_one_value("grr", domain_sizes), epsilon=epsilon)


grr_fs: MechanismEntry[FeatureMechanism] = MechanismEntry(name="grr-fs", title=GRRFS.title, factory=GRRFS)
"""The paper's mechanism."""
grr_on_all: MechanismEntry[FeatureMechanism] = MechanismEntry(
    name="grr-on-all", title="GRR on all features", factory=_grr_on_all
)
"""GRR on every feature at the same user-level epsilon: the best m for GRR-FS."""
joint_grr: MechanismEntry[FeatureMechanism] = MechanismEntry(name="joint-grr", title=JointGRR.title, factory=JointGRR)
"""One randomized response for m sampled features together."""
joint_grr_best: MechanismEntry[FeatureMechanism] = MechanismEntry(
    name="joint-grr-best", title="joint GRR, best m", factory=_joint_grr_best
)
"""Joint GRR at the same user-level epsilon, with the m whose estimates vary least."""
multi_bit: MechanismEntry[FeatureMechanism] = MechanismEntry(name="multi-bit", title=MultiBit.title, factory=_multi_bit)
"""LPGNN's mechanism."""
multi_bit_best: MechanismEntry[FeatureMechanism] = MechanismEntry(
    name="multi-bit-best", title="multi-bit, best m", factory=_multi_bit_best
)
"""LPGNN's mechanism at the same user-level epsilon, with the m that its analysis prefers."""
grr = MechanismEntry(name="grr", title="GRR", factory=_grr)
"""GRR on a single value, such as a label."""
subset_selection = MechanismEntry(name="subset-selection", title="subset selection", factory=_subset_selection)
"""A set of values that holds a single one, such as a label; the size of the set carries most information."""

MECHANISMS: dict[str, MechanismEntry[Mechanism]] = {
    entry.name: entry
    for entry in (grr_fs, grr_on_all, joint_grr, joint_grr_best, multi_bit, multi_bit_best, grr, subset_selection)
}


def find_mechanism(name: str) -> MechanismEntry[Mechanism]:
    """Return the entry of a name; a name that is not registered is refused.

    >>> find_mechanism("joint-grr").title
    'joint GRR'
    >>> find_mechanism("grrfs")
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: there is no mechanism 'grrfs': known are grr-fs, grr-on-all, joint-grr, \
joint-grr-best, multi-bit, multi-bit-best, grr, subset-selection; did you mean grr-fs or grr?
    """
    if name not in MECHANISMS:
        raise BudgetError(
            f"there is no mechanism '{name}': known are {', '.join(MECHANISMS)}{nearest_names(name, MECHANISMS)}"
        )
    return MECHANISMS[name]


def label_mechanism(num_classes: int, epsilon: float, asked: RoundBudget = ONCE) -> LabelOnce | LongitudinalGRR:
    """Return the mechanism of a label that is asked once, or in several rounds.

    >>> label_mechanism(3, 2.0, RoundBudget(rounds=4))
    LongitudinalGRR(domain_size=3, epsilon=2.0, round_epsilon=1.0, rounds=4, values=2, optional=False)
    """
    if asked.rounds is None:
        return best_label_mechanism(num_classes, epsilon)
    return LongitudinalGRR(num_classes, epsilon, asked.of_label(epsilon), asked.rounds, asked.values)


def feature_mechanism(
    name: str, domain_sizes: tuple[int, ...], sampled: int, epsilon: float, asked: RoundBudget = ONCE
) -> Mechanism:
    """Return the mechanism of features that are asked once, or in several rounds."""
    entry = find_mechanism(name)
    if sampled < 1:  # mechanisms of a single value would not look at it
        raise BudgetError(f"sampled is {sampled}: a person samples at least 1 feature")
    if asked.rounds is None:
        return entry.make(domain_sizes, sampled, epsilon)
    if entry is not grr_fs:  # the default, which nobody has to choose
        raise BudgetError(f"the features of a series are answered by L-GRR: leave out {name}, or the rounds")
    of_round = asked.of_feature(epsilon)
    return LongitudinalFeatures(domain_sizes, sampled, epsilon, of_round, asked.rounds, asked.values)


def answer_mechanism(
    kind: str, *, num_classes: int, people: int, epsilon: float, cap: int | None = None
) -> NeighbourhoodClass | NeighbourhoodHistogram | RandomizedNeighbourList:
    """Return the mechanism of answers about neighbour lists.

    Args:
        kind: histogram, class or list.
        num_classes: number of classes of the label, for histogram and class.
        people: number of people who can be in a list.
        epsilon: budget of an answer, under the relation of its kind.
        cap: neighbours that count for each class at most, for histograms.
    """
    if kind not in ("histogram", "class", "list"):
        raise BudgetError(f"there is no answer '{kind}' about neighbours: choose histogram, class or list")
    if cap is not None and kind != "histogram":
        raise BudgetError("cap is for histograms: the class protects lists of any length, randomized lists none")
    if kind == "class":
        return NeighbourhoodClass(num_classes, epsilon)
    if kind == "list":
        return RandomizedNeighbourList(people, epsilon)
    return NeighbourhoodHistogram(num_classes, epsilon, finest_scale(num_classes), cap)


def check_waves_of_answers(kind: str, epsilons: Sequence[float]) -> None:
    """Refuse waves of answers about neighbour lists without a budget, and several waves of lists.

    >>> check_waves_of_answers("list", [1.0, 1.0])
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: a series asks for a randomized list in one wave: give one budget, or choose class \
or histogram
    """
    if not epsilons:
        raise BudgetError("which budget has each wave? give an edge epsilon for each wave")
    if kind == "list" and len(epsilons) > 1:
        raise BudgetError(
            "a series asks for a randomized list in one wave: give one budget, or choose class or histogram"
        )


def describe(mechanism: Mechanism) -> str:
    """Return the name of a campaign's mechanism in the registry; of a series what it asks, and how often."""
    if isinstance(mechanism, LongitudinalFeatures | LongitudinalGRR):
        asked = f" of {counted(mechanism.sampled, 'feature')}" if isinstance(mechanism, LongitudinalFeatures) else ""
        rounds = counted(mechanism.rounds, "round")
        return f"l-grr{asked}, {rounds}, values at most {mechanism.values} (a record is a history)"
    forms: dict[type[object], str] = {form: name for name, form in (*FEATURE_FORMS.items(), *LABEL_FORMS.items())}
    return forms[type(mechanism)].replace("_", "-")


FEATURE_FORMS: dict[str, type[GRRFS | JointGRR]] = {each.wire_name: each for each in (GRRFS, JointGRR)}
"""Mechanisms by which a campaign may ask for features, by their names in documents."""
LABEL_FORMS: dict[str, type[LabelOnce]] = {each.wire_name: each for each in get_args(LabelOnce)}
"""Mechanisms by which a campaign may ask for the label, by their names in documents."""
ANSWER_FORMS: dict[str, type[NeighbourMechanism]] = {
    each.wire_name: each for each in (NeighbourhoodClass, NeighbourhoodHistogram, RandomizedNeighbourList)
}
"""Mechanisms by which a wave may ask about private neighbours, by their names in documents."""
