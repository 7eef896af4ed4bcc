"""The interface of every method: fit on reports and public structure, predict classes, save, load.

Below it are the conventions of scikit-learn: parameters, fitted attributes, and the state that is saved (`Estimator`).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import FitError, VeilgraphError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.graph.graph import GraphSize
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.conformal import ConformalSets
from veilgraph.models.parameters import Range, check_values
from veilgraph.models.saved_state import FittedState, SavedMethod, check_types
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.mechanisms import Mechanism
from veilgraph.privacy.notebook_table import html_table, listed

DOMAIN = ("classes_", "n_features_in_")
"""Fitted attributes that every method has; a model folder keeps them beside the fitted values."""


class Estimator:
    """An object that is fitted, by the conventions of scikit-learn.

    Constructor parameters are attributes of the same name. Fitted attributes end with an underscore, for example
    `probabilities_`, and are set by a fit. `sklearn.base.clone` returns a copy that is not fitted, and
    `sklearn.utils.validation.check_is_fitted` tells the two apart.

    Attributes:
        ranges: numbers that parameters may take, by name; a parameter that is not named may take any finite number.
    """

    ranges: ClassVar[dict[str, Range]] = {"seed": Range(0)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name. No parameter is an estimator, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor parameters; a name that the method does not have is refused with the nearest ones."""
        known = self.get_params()
        for name in parameters.keys() - known.keys():
            near = get_close_matches(name, known, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known) or 'none'}"
            raise FitError(f"{type(self).__name__} has no parameter '{name}': {hint}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def check_settings(self) -> None:
        """Raise FitError unless each parameter has the declared type, and a number is in its range.

        A fit calls it first. As in scikit-learn, a constructor checks nothing.
        """
        check_values(self.get_params(), declared_types(type(self)), self.ranges)

    def saved_parameters(self) -> dict[str, Any]:
        """Return the constructor parameters, JSON-ready, as `save` writes them."""
        return self.get_params()

    def __sklearn_is_fitted__(self) -> bool:
        return bool(fitted_attributes(self))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a classifier; only scikit-learn asks for them."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False),
        )

    def fitted_state(self) -> FittedState:
        """Return the state that `save` writes besides the parameters; `restore` takes it back.

        The default saves all fitted attributes under their names without the underscore. A method whose fitted
        attributes are neither arrays nor JSON-ready overrides both functions.
        """
        fitted = {name.removesuffix("_"): value for name, value in fitted_attributes(self).items()}
        arrays = {name: value for name, value in fitted.items() if isinstance(value, np.ndarray)}
        return FittedState(arrays=arrays, values={name: value for name, value in fitted.items() if name not in arrays})

    def restore(self, state: FittedState) -> None:
        """Set the fitted attributes to a state that `fitted_state` returned; refuse one of another form."""
        declared = {
            name.removesuffix("_"): kind for name, kind in declared_types(type(self)).items() if name.endswith("_")
        }
        if declared:
            state.check(declared)
        for name, value in (state.values | state.arrays).items():
            setattr(self, f"{name}_", value)


def fitted_attributes(method: Estimator) -> dict[str, Any]:
    """Return the attributes that a fit has set, by name; attributes that state the domain are left out."""
    fitted = {name: value for name, value in vars(method).items() if name.endswith("_") and value is not None}
    return {name: value for name, value in fitted.items() if name not in DOMAIN}


def declared_types(cls: type[Estimator]) -> dict[str, Any]:
    """Return the declared types of parameters and fitted attributes, by name."""
    return {
        name: kind
        for name, kind in get_type_hints(cls).items()
        if get_origin(kind) is not ClassVar and name not in DOMAIN
    }


DEFAULT_MEMORY = 8 * 2**30
"""Default memory limit of fits that are trained together, in bytes."""

_REMEDY = "train it again, or copy the folder again"

# Errors of a method on fitted values of an unexpected form.
_MALFORMED = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)

M_co = TypeVar("M_co", bound="Method", covariant=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitTask(Generic[M_co]):
    """One fit to do: a method with the data to fit it to.

    Attributes:
        method: the estimator; a fit changes it in place.
        perturbed: the reports and the public graph.
        split: training, validation and test nodes.
        checkpoint: state of an interrupted fit, and the file for this fit's state. A task with a checkpoint is trained
            alone. Methods that cannot resume ignore it.
    """

    method: M_co
    perturbed: PerturbedGraph
    split: Split
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        check_reports(self.perturbed, self.split)


def training_nodes(tasks: Sequence[FitTask[Method]]) -> NDArray[np.bool_]:
    """Return a mask [tasks, nodes] of the training nodes that reported a label."""
    return np.stack([task.split.train & task.perturbed.has_label for task in tasks])


class PendingFit(Generic[M_co]):
    """Tasks whose fit was started together. On a GPU the fit may still be running.

    Args:
        tasks: the tasks. Methods that finish before they return need nothing else; others override `result`.
    """

    def __init__(self, tasks: Sequence[FitTask[M_co]]) -> None:
        self.tasks = tuple(tasks)

    def result(self) -> Sequence[FitTask[M_co]]:
        """Wait until every method is fitted, and return the tasks."""
        return self.tasks


class Method(Estimator, ABC):
    """A node classifier that trains on reports and public structure, never on a true value.

    Attributes:
        name: key of the method in result tables and model folders.
        uses_features: whether the method needs feature reports. If not, it spends no feature budget.
        uses_public: whether the method reads public columns.
        classes_: after a fit, the names of the classes in the order of their codes, [classes].
        n_features_in_: after a fit, the number of features of the schema.
    """

    name: ClassVar[str]
    uses_features: ClassVar[bool] = True
    uses_public: ClassVar[bool] = False
    classes_: NDArray[np.str_]
    n_features_in_: int

    @abstractmethod
    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Learn from label reports of training nodes, select on reports of validation nodes, and return the method."""

    @abstractmethod
    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes] of the graph of the fit, or of another graph."""

    def predict(self, perturbed: PerturbedGraph | None = None, *, names: bool = False) -> NDArray[Any]:
        """Return the most likely class of every node [nodes], as its code or by its name."""
        codes = np.asarray(self.predict_proba(perturbed).argmax(axis=1))
        return self.classes_[codes] if names else codes

    def score(
        self, true: ArrayLike, *, nodes: ArrayLike | None = None, perturbed: PerturbedGraph | None = None
    ) -> float:
        """Return the share of nodes whose true class is predicted. For the laboratory: a server has no true class.

        Args:
            true: true class of each node, as codes or names, [nodes].
            nodes: mask or numbers of the nodes to score, such as `split.test`; default: all nodes.
            perturbed: another graph than in the fit.
        """
        labels, codes = np.asarray(true), self.predict(perturbed)
        if labels.shape != codes.shape:
            raise FitError(f"the true classes have shape {labels.shape}: give one for each of the {len(codes)} nodes")
        named = labels.dtype.kind in "OU"
        if named and not np.isin(labels, self.classes_).all():
            raise FitError(f"a true class has an unknown name: the classes are {', '.join(self.classes_)}")
        right = (self.classes_[codes] if named else codes) == labels
        return float(right[slice(None) if nodes is None else _chosen(nodes, len(codes))].mean())

    def conformal_sets(self) -> ConformalSets:
        """Return the estimated coverage of sets of classes. Methods that estimate it override this function."""
        raise FitError(
            f"{type(self).__name__} gives no sets with a stated coverage: leave coverage out, or use Veil or LabelVeil "
            "on a graph"
        )

    def predict_sets(
        self, coverage: float = 0.9, perturbed: PerturbedGraph | None = None, *, allow_empty: bool = False
    ) -> NDArray[np.bool_]:
        """Return a set of classes for each node that holds the true one with probability `coverage`, [nodes, classes].

        Args:
            coverage: share of nodes whose set is to hold the true class, above 0 and below 1.
            perturbed: another graph, whose people are exchangeable with the people of the fit; default: the graph
                of the fit.
            allow_empty: leave sets empty where no class is likely enough; default: all classes are in them.
        """
        calibrated = self.conformal_sets()
        reporting = calibrated.reporting if perturbed is None else perturbed.has_label
        return calibrated.sets(self.predict_proba(perturbed), reporting, coverage, allow_empty=allow_empty)

    def predict_without_own_report(self, perturbed: PerturbedGraph) -> NDArray[np.float64] | None:
        """Return class probabilities that use no label report of the node itself, [nodes, classes].

        Methods that are cross-fitted, or fast enough to be, override this function.

        Args:
            perturbed: the reports and the graph of the fit.

        Returns:
            The probabilities; None if the method cannot tell them. Then only labels that are held out can judge it.
        """
        return None

    def unused_reports(self, perturbed: PerturbedGraph) -> UnusedReports | None:
        """Return the label reports of the fit with predictions that did not use them; None if there are none."""
        probabilities = self.predict_without_own_report(perturbed)
        if probabilities is None:
            return None
        nodes = np.flatnonzero(perturbed.has_label)
        return UnusedReports(
            nodes=nodes,
            probabilities=probabilities[nodes],
            named=perturbed.label_mechanism.named(perturbed.labels[nodes]),
            mechanism=perturbed.label_mechanism,
        )

    @property
    def public_columns(self) -> tuple[str, ...]:
        """Names of the public columns that the fitted method uses."""
        return ()

    @classmethod
    def start_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Start the fits of many tasks, batch by batch; yield each batch as soon as it is started.

        Results equal the results of separate fits, up to the rounding of sums. Methods that can share work between
        tasks override this function; the default fits one task after another.

        Args:
            tasks: tasks whose methods are of this class, on one graph or on several.
            memory: limit for all fits that run at the same time, in bytes.
        """
        for task in tasks:
            task.method.fit(task.perturbed, task.split)
            yield PendingFit([task])

    @classmethod
    def fit_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[Sequence[FitTask[Self]]]:
        """Fit many tasks, and yield each batch when it is finished: `start_together` with waiting."""
        for pending in cls.start_together(tasks, memory=memory):
            yield pending.result()

    def bag_counts(self) -> tuple[int, ...]:
        """Return the cluster counts that a fit needs, so that clusterings can be computed in advance."""
        return ()

    def epsilon_spent(self, guarantee: Guarantee) -> float:
        """Return the user-level epsilon of the reports that this method needs."""
        return guarantee.total_user_level if self.uses_features else guarantee.label_user_level

    @classmethod
    def defaults_on(cls, graph: GraphSize) -> dict[str, Any]:
        """Return the parameters that `run` and `train` give on a graph, where nobody gives others."""
        return {}

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Name the reports that the method needs and a campaign does not collect; None if nothing is missing.

        Args:
            features: mechanism that randomizes the features of the campaign; None if it collects none.
        """
        return "feature reports" if cls.uses_features and features is None else None

    @classmethod
    def unmet_graph(cls, *, has_edges: bool) -> str | None:
        """Name the graph that the method needs if one with or without edges does not fit it; otherwise return None."""
        return None if has_edges else "a public graph"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "parameters": listed(f"{name}={value!r}" for name, value in self.get_params().items())
        }
        facts["reads"] = "feature reports and label reports" if self.uses_features else "label reports alone"
        facts["public columns"] = "are read" if self.uses_public else "are not read"
        facts["fitted"] = "no"
        if fitted_attributes(self):
            nodes, classes = self.predict_proba().shape
            facts["fitted"] = f"{nodes} nodes, {classes} classes: {listed(getattr(self, 'classes_', range(classes)))}"
        return html_table(type(self).__name__, facts)

    def save(self, folder: str | Path) -> None:
        """Write `model.json` (name, parameters, fitted values) and `weights.npz` (arrays, manifest), without code."""
        check_is_fitted(self)
        SavedMethod(
            method=self.name,
            parameters=self.saved_parameters(),
            classes=tuple(getattr(self, "classes_", np.array([])).tolist()),
            num_features=getattr(self, "n_features_in_", 0),
            state=self.fitted_state(),
        ).write(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", **replaced: Any) -> Self:
        """Read a fitted method that `save` wrote; refuse files that are damaged or belong to another method.

        Args:
            folder: folder of the model.
            device: device for predictions; the device of the fit may not exist here.
            replaced: other parameters to replace, by name.
        """
        try:
            saved = SavedMethod.read(Path(folder))
            if saved.method == cls.name:
                check_parameters(cls, saved.parameters)
        except (OSError, ValueError) as error:
            raise FitError(f"{folder} does not hold a readable model: {error}; {_REMEDY}") from error
        if saved.method != cls.name:
            raise FitError(f"{folder} holds a model of '{saved.method}', not of '{cls.name}'")
        own_device = {"device": device} if "device" in saved.parameters else {}
        method = cls(**saved.parameters | own_device | replaced)
        try:
            method.restore(saved.state)
            _check_distributions(method.predict_proba())
            _restore_domain(method, saved)
        except FitError as error:
            raise FitError(f"{folder} does not hold a readable model: {error}; {_REMEDY}") from error
        except VeilgraphError:
            raise
        except _MALFORMED as error:
            raise FitError(
                f"{folder} does not hold a readable model: its fitted values have an unexpected form "
                f"({type(error).__name__}); {_REMEDY}"
            ) from error
        return method


def _chosen(nodes: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    """Return the numbers of the nodes of a mask or of numbers; refuse a wrong length, unknown nodes, and none."""
    chosen = np.asarray(nodes)
    if chosen.dtype == np.bool_ and chosen.shape != (num_nodes,):
        raise FitError(f"the mask of nodes has shape {chosen.shape}: give one value for each of the {num_nodes} nodes")
    numbers = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    if not numbers.size:
        raise FitError("there is no node to score: give at least one")
    if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= num_nodes:
        raise FitError(f"nodes are numbers from 0 to {num_nodes - 1}, or a mask: give one of the two")
    return numbers


def check_is_fitted(method: Method) -> None:
    """Raise FitError if the method has no fitted attribute yet."""
    if not fitted_attributes(method):
        raise FitError(f"{type(method).__name__} was not fitted yet: call fit(perturbed, split) first")


def check_reports(perturbed: object, split: object) -> None:
    """Raise FitError unless a fit is given reports on a graph and a split, and not a table and its labels."""
    if not isinstance(perturbed, PerturbedGraph):
        raise FitError(
            f"the reports are of type {type(perturbed).__name__}: give a PerturbedGraph, such as simulate(...) returns"
        )
    if not isinstance(split, Split):
        raise FitError(f"the split is of type {type(split).__name__}: give a Split, such as Split.random(...) returns")


def begin_fit(method: Method, perturbed: PerturbedGraph, split: Split, communicator: Communicator = LOCAL) -> None:
    """Check the input of a fit, and note the classes and the number of features in the method.

    Raises FitError if a parameter cannot be used, if the split does not fit the graph, or if it has no label reports
    for training or selection. It is raised as well if a method that reads the graph finds no edge in it.
    """
    check_reports(perturbed, split)
    method.check_settings()
    if split.train.shape != (perturbed.graph.num_nodes,):
        raise FitError(f"the split is for {len(split.train)} nodes, the graph has {perturbed.graph.num_nodes}")
    if not _anywhere(split.train & perturbed.has_label, communicator):
        raise FitError("no labelled nodes among the training nodes: wait for more label reports")
    if not _anywhere(split.validation & perturbed.has_label, communicator):
        raise FitError("no labelled nodes among the validation nodes: wait for more label reports")
    if method.unmet_graph(has_edges=False) and not _anywhere(np.array(perturbed.graph.num_edges > 0), communicator):
        raise FitError(
            f"the graph has no edges, and {type(method).__name__} learns from neighbours: give a graph with edges; "
            "where neighbours are private, ask about them in waves"
        )
    method.classes_ = np.array(perturbed.schema.classes)
    method.n_features_in_ = perturbed.schema.num_features


def check_feature_reports(method: type[Method], perturbed: PerturbedGraph, communicator: Communicator = LOCAL) -> None:
    """Raise FitError if no node reported features, for a method that cannot do without them."""
    if not _anywhere(perturbed.has_features, communicator):
        raise FitError(
            f"{method.__name__} needs feature reports, and there are none: ask for features, "
            "or use a method that needs labels alone, such as Veil or StructureOnly"
        )


def _anywhere(nodes: NDArray[np.bool_], communicator: Communicator) -> bool:
    return bool(communicator.all_reduce_max(int(nodes.any())))


def check_parameters(cls: type[Method], parameters: dict[str, Any]) -> None:
    """Raise FitError if a parameter is unknown to the class or of another type than it declares."""
    declared = declared_types(cls)
    for name in parameters:
        if name not in inspect.signature(cls).parameters:
            raise FitError(f"the method '{cls.name}' has no parameter '{name[:40]}'")
    check_types(parameters, {name: declared.get(name, Any) for name in parameters})


def _restore_domain(method: Method, saved: SavedMethod) -> None:
    """Set the names of the classes and the number of features."""
    count = method.predict_proba().shape[1]
    if len(saved.classes) != count:
        raise FitError(f"it names {len(saved.classes)} classes, and its probabilities are of {count}")
    method.classes_, method.n_features_in_ = np.array(saved.classes), saved.num_features


def _check_distributions(probabilities: NDArray[np.float32]) -> None:
    """Raise FitError unless each row is a probability distribution, [nodes, classes]."""
    if probabilities.ndim != 2 or not np.allclose(probabilities.sum(axis=1), 1, rtol=0, atol=1e-3):
        raise FitError(f"its probabilities, of shape {probabilities.shape}, are not one distribution for each node")
    if probabilities.size and probabilities.min() < 0:
        raise FitError("its probabilities are below 0")
