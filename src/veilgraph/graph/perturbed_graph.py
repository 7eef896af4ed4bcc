"""The public graph with the reports that were collected on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilgraph.errors import DomainError, GraphError
from veilgraph.graph.graph import Graph
from veilgraph.graph.public_attributes import PublicAttributes
from veilgraph.graph.pyg import make_data
from veilgraph.graph.wave_answers import WaveAnswers, most_answered
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.mechanisms import FeatureMechanism, LabelMechanism
from veilgraph.privacy.notebook_table import html_table, listed
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class PerturbedGraph:
    """The public graph and the collected reports: everything that the server knows.

    A node may report no features, no label, or nothing. The masks say which reports exist; no value is imputed.

    Attributes:
        graph: the public graph.
        schema: features and classes that were asked for.
        features: x', `[nodes, features]`, as the feature mechanism reports them.
        labels: y', `[nodes, ...]`, as the label mechanism reports them: class codes, or sets of classes as bit masks.
        has_features: `[nodes]`, which rows of `features` are reports.
        has_label: `[nodes]`, which entries of `labels` are reports.
        feature_mechanism: mechanism that randomized the features; None if no features were asked for. Then no node has
            features, and `features` is zero.
        label_mechanism: mechanism that randomized the labels.
        feature_rounds: features in each round of a series, `[nodes, rounds, features]`, of which `features` is the
            evidence; None if features were asked once. Methods do not read it.
        neighbour_waves: answers about private neighbour lists, wave by wave; none if the graph is public. With private
            neighbours, `graph` has the people and no edge; with randomized lists, those who name each other.
        public: what is known about the nodes without asking; None if nothing is. It costs no epsilon.
    """

    graph: Graph
    schema: FeatureSchema
    features: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    has_features: NDArray[np.bool_] = field(repr=False)
    has_label: NDArray[np.bool_] = field(repr=False)
    feature_mechanism: FeatureMechanism | None
    label_mechanism: LabelMechanism
    feature_rounds: NDArray[Any] | None = field(default=None, repr=False)
    neighbour_waves: tuple[WaveAnswers, ...] = ()
    public: PublicAttributes | None = None

    def __post_init__(self) -> None:
        nodes, features = self.graph.num_nodes, self.schema.num_features
        expected = {
            "features": (nodes, features),
            "has_features": (nodes,),
            "has_label": (nodes,),
        }
        for name, shape in expected.items():
            if (found := getattr(self, name).shape) != shape:
                raise GraphError(f"{name} has shape {found}: {nodes} nodes and {features} features need {shape}")
        if self.feature_mechanism is None and self.has_features.any():
            raise GraphError("nodes have feature reports, but there is no mechanism that randomized them")
        if self.feature_mechanism is not None and self.feature_mechanism.num_features != features:
            raise GraphError(
                f"the feature mechanism is for {self.feature_mechanism.num_features} features, "
                f"the schema has {features}"
            )
        if self.label_mechanism.domain_size != self.schema.num_classes:
            raise GraphError(
                f"the label mechanism is for {self.label_mechanism.domain_size} classes, "
                f"the schema has {self.schema.num_classes}"
            )
        for number, wave in enumerate(self.neighbour_waves, start=1):
            classes = self.schema.num_classes if wave.table is None else wave.table.num_classes
            if wave.num_people != nodes or classes != self.schema.num_classes:
                raise GraphError(
                    f"wave {number} of neighbour answers is for {wave.num_people} people and {classes} classes: there "
                    f"are {nodes} nodes and {self.schema.num_classes} classes"
                )
        if self.public is not None and self.public.num_nodes != nodes:
            raise GraphError(f"public columns have {self.public.num_nodes} rows: there are {nodes} nodes")
        if len(self.labels) != nodes:
            raise GraphError(f"labels has {len(self.labels)} rows: there are {nodes} nodes")
        try:
            self.label_mechanism.check_reports(self.labels[self.has_label])
        except DomainError as error:
            raise GraphError(str(error)) from None

    def __repr__(self) -> str:
        reports = ", ".join(
            counted(int(has.sum()), f"{part} report")
            for part, has in (("feature", self.has_features), ("label", self.has_label))
        )
        mechanisms = ", ".join(
            repr(each) for each in (self.feature_mechanism, self.label_mechanism, self.public) if each is not None
        )
        return f"PerturbedGraph({self.graph}, {reports}, {mechanisms})"

    def _repr_html_(self) -> str:
        facts = {
            "public graph": self.graph,
            "label reports": f"{int(self.has_label.sum())}, by {self.label_mechanism!r}",
            "feature reports": f"{int(self.has_features.sum())}, by {self.feature_mechanism!r}"
            if self.feature_mechanism
            else "none are asked for",
            **({} if self.public is None else {"public columns": listed(self.public.names)}),
            "classes": listed(self.schema.classes),
        }
        return html_table("Perturbed graph", facts, notes=self.guarantee.in_words(theorem_1=False)[:1])

    def to_frame(self, probabilities: ArrayLike | None = None) -> pd.DataFrame:
        """Return a row for each node: its id, what it reported, and predictions if their probabilities are given.

        Columns are `id`, `has_features` and `has_label`; then `class` (the most likely one), `probability`, and
        `probability_CLASS` for each class.

        Args:
            probabilities: of a method, `[nodes, classes]`, as `predict_proba` returns them.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "id": list(self.graph.names),
            "has_features": self.has_features,
            "has_label": self.has_label,
        }
        if probabilities is not None:
            rows, classes = np.asarray(probabilities), self.schema.classes
            if rows.shape != (self.graph.num_nodes, len(classes)):
                raise GraphError(
                    f"the probabilities have shape {rows.shape}: {self.graph.num_nodes} nodes and {len(classes)} "
                    "classes need one row and one column each"
                )
            columns |= {"class": [classes[code] for code in rows.argmax(axis=1)], "probability": rows.max(axis=1)}
            columns |= {f"probability_{name}": rows[:, code] for code, name in enumerate(classes)}
        return pd.DataFrame(columns)

    def on(self, graph: Graph, *, public: PublicAttributes | None = None) -> PerturbedGraph:
        """Return the same reports on another graph, such as the one of today: people are known by their ids.

        Who joined has reported nothing; the reports of who left are left out.

        Args:
            graph: the other graph.
            public: what is known about its nodes without asking, if the reports have public attributes.

        >>> before = Graph.from_edges([[0], [1]], 2, node_ids=["a", "b"])
        >>> after = Graph.from_edges([[0, 1], [1, 2]], 3, node_ids=["c", "b", "a"])
        >>> from veilgraph.privacy.mechanisms import GRR
        >>> asked = PerturbedGraph(graph=before, schema=FeatureSchema(classes=("n", "y")), features=np.zeros((2, 0)),
        ...     labels=np.array([1, 0]), has_features=np.zeros(2, bool), has_label=np.ones(2, bool),
        ...     feature_mechanism=None, label_mechanism=GRR(2, 1.0))
        >>> asked.on(after).has_label.tolist(), asked.on(after).labels.tolist()
        ([False, True, True], [0, 0, 1])
        """
        if self.neighbour_waves:
            raise GraphError("answers about neighbours belong to their people: they cannot move to another graph")
        if (self.public is None) != (public is None):
            raise GraphError("public attributes belong to a graph: give those of the other graph, if there are any")
        row_of = {name: row for row, name in enumerate(self.graph.names)}
        rows = np.array([row_of.get(name, -1) for name in graph.names])

        def moved(values: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros((len(rows), *values.shape[1:]), dtype=values.dtype)
            found[rows >= 0] = values[rows[rows >= 0]]
            return found

        return replace(
            self,
            graph=graph,
            public=public,
            features=moved(self.features),
            labels=moved(self.labels),
            has_features=moved(self.has_features),
            has_label=moved(self.has_label),
            feature_rounds=None if self.feature_rounds is None else moved(self.feature_rounds),
        )

    def to_data(self) -> Any:
        """Return the reports as a `torch_geometric.data.Data`: everything that a server knows, and no true value.

        Its attributes are:

        - `x` [nodes, features] and `y` [nodes, ...]: the reports, with the masks `has_features` and `has_label`;
        - `named` [nodes, classes]: whether a label report names a class;
        - `label_keep` and `label_other`: the probabilities that a label report names the true class, and a given
          other class. A loss with forward correction needs no more;
        - where links are not all alike, `edge_weight` [edges] and the number of their kind, `edge_type` [edges]. Those
          with a direction are in `edge_index` once, others in both directions.
        """
        channel, links = self.label_mechanism.channel, self.graph.links
        edges = {"edge_index": self.graph.edge_index} if links is None else links.as_edge_index()
        return make_data(
            x=self.features.astype(np.float32),
            **edges,
            y=self.labels,
            has_features=self.has_features,
            has_label=self.has_label,
            named=self.named_classes(),
            label_keep=float(channel.keep),
            label_other=float(channel.other),
            num_nodes=self.graph.num_nodes,
        )

    def named_classes(self) -> NDArray[np.bool_]:
        """Return which classes each node's label report names, `[nodes, classes]`; no class where there is none."""
        return self.label_mechanism.named(self.labels) & self.has_label[:, None]

    def public_columns(self, names: Sequence[str]) -> PublicAttributes:
        """Return the public columns of these names, at least one; refuse a graph that lacks one.

        A model reads the columns that it was trained with, and no others.
        """
        known = () if self.public is None else self.public.names
        if missing := [name for name in names if name not in known]:
            raise GraphError(
                f"the graph has no public column '{missing[0]}', which the model was trained with: give it, or train "
                "the model again"
            )
        return PublicAttributes(tuple(self.public[name] for name in names if self.public is not None))

    @property
    def has_report(self) -> NDArray[np.bool_]:
        """Which people sent features, a label or an answer about their neighbours, [nodes]."""
        answered = [wave.has_answer for wave in self.neighbour_waves]
        return np.asarray(np.logical_or.reduce([self.has_features, self.has_label, *answered]))

    @property
    def is_linked(self) -> NDArray[np.bool_]:
        """Which people have an edge, or answered about their neighbours, [nodes]."""
        answered = [wave.has_answer for wave in self.neighbour_waves]
        return np.asarray(np.logical_or.reduce([self.graph.degrees > 0, *answered]))

    @property
    def guarantee(self) -> Guarantee:
        """Privacy guarantee of a whole report, features and label."""
        return guarantee_of(self.feature_mechanism, self.label_mechanism, most_answered(self.neighbour_waves))
