"""Methods as estimators of scikit-learn whose samples are nodes, selected on randomized labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilgraph.errors import FitError, MissingExtraError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import Method

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise MissingExtraError("scikit-learn", "lab") from None


class NodeClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""A method of this package for `cross_val_score`, `GridSearchCV` and pipelines.

    A sample is the number of a node, and X has one column of them, `np.arange(nodes)[:, None]`. The public graph and
    the feature reports are known whatever the sample. A fit sees the label reports of its nodes and of no other ones.
    There is no y: labels are reports. The score of nodes is the mean log-likelihood of their label reports,

    .. math:: \frac{1}{|V|} \sum_{v \in V} \log \sum_c \hat y_{v,c} P(y'_v \mid c)

    which needs no true label and is highest in the mean for true class probabilities. `transform` returns the class
    probabilities; after `set_output(transform="pandas")` they are a frame.

    Args:
        method: method to fit, such as `Veil()`; its parameters are `method__NAME`.
        reports: public graph and reports.
        validation: share of the nodes of a fit whose reports select among its epochs.
        seed: seed that chooses these nodes.

    Attributes:
        method_: after a fit, the fitted method.
        classes_: names of the classes.

    >>> from veilgraph.models import RGNN
    >>> NodeClassifier(RGNN(feature_hops=2)).get_params()["method__feature_hops"]
    2
    """

    method_: Method
    classes_: NDArray[np.str_]

    def __init__(
        self,
        method: Method | None = None,
        reports: PerturbedGraph | None = None,
        *,
        validation: float = 0.25,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.reports = reports
        self.validation = validation
        self.seed = seed

    def __sklearn_clone__(self) -> Self:
        """Return a copy that is not fitted; it shares the reports, which nothing changes."""
        method = None if self.method is None else clone(self.method)
        return type(self)(method, self.reports, validation=self.validation, seed=self.seed)

    def __sklearn_tags__(self) -> Any:
        """Return tags: samples are node numbers and no table of features, and no y is needed."""
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.two_d_array, tags.target_tags.required = False, False
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803  the names of scikit-learn
        """Fit the method to the label reports of some nodes; y is not read."""
        method, reports = self._given()
        seen = np.zeros(reports.graph.num_nodes, dtype=np.bool_)
        seen[self._nodes(X, reports)] = True
        labelled = reports.has_label & seen
        split = Split.random(
            len(seen), seed=self.seed, train=1 - self.validation, validation=self.validation, eligible=labelled
        )
        self.method_ = clone(method).fit(replace(reports, has_label=labelled), split)
        self.classes_, self.n_features_in_ = self.method_.classes_, 1
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:  # noqa: N803
        """Return the class probabilities of some nodes, [samples, classes]."""
        check_is_fitted(self)
        return self.method_.predict_proba()[self._nodes(X, self._given()[1])]

    def predict(self, X: ArrayLike) -> NDArray[np.str_]:  # noqa: N803
        """Return the most likely class of some nodes by name, [samples]."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:  # noqa: N803
        """Return the class probabilities of some nodes, [samples, classes]."""
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`."""
        check_is_fitted(self)
        return np.array([f"probability_{name}" for name in self.classes_], dtype=object)

    def score(self, X: ArrayLike, y: object = None, sample_weight: object = None) -> float:  # noqa: N803
        """Return the mean log-likelihood of the label reports of some nodes; nodes without one do not count."""
        _, reports = self._given()
        nodes = self._nodes(X, reports)
        nodes = nodes[reports.has_label[nodes]]
        if not len(nodes):
            raise FitError("none of these nodes reported a label: score nodes that did")
        likelihood, named = reports.label_mechanism.likelihood, reports.named_classes()[nodes]
        of_report = np.where(named, float(likelihood.keep), float(likelihood.other))
        return float(np.log((self.predict_proba(nodes).astype(np.float64) * of_report).sum(axis=1)).mean())

    def _given(self) -> tuple[Method, PerturbedGraph]:
        if not isinstance(self.method, Method) or not isinstance(self.reports, PerturbedGraph):
            raise FitError(
                f"method is of type {type(self.method).__name__} and reports of type {type(self.reports).__name__}: "
                "give NodeClassifier(Veil(), reports) with a PerturbedGraph"
            )
        return self.method, self.reports

    @staticmethod
    def _nodes(X: ArrayLike, reports: PerturbedGraph) -> NDArray[np.int64]:  # noqa: N803
        numbers = np.asarray(X)
        nodes = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
        count = reports.graph.num_nodes
        if (
            nodes.ndim != 1
            or nodes.dtype.kind not in "iu"
            or (len(nodes) and not 0 <= nodes.min() <= nodes.max() < count)
        ):
            raise FitError(
                f"X has shape {numbers.shape} and type {numbers.dtype}: give node numbers from 0 to {count - 1}, "
                "such as numpy.arange(nodes)[:, None]"
            )
        return nodes.astype(np.int64)
