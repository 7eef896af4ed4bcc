"""Public attributes as inputs of a GNN: clean columns beside the private ones, at no cost of epsilon."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.saved_state import FittedState
from veilgraph.reconstruct.attribute_components import AttributeColumns, smoothed_components
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(frozen=True, eq=False)
class PublicInputs:
    r"""The map from public columns to inputs that a fit has chosen; predictions on another graph take the same.

    Encoded columns X are projected on their leading principal axes, and the first input has a variance of 1:

    .. math:: X V \sqrt{n} / s_1, \qquad X - \bar X = U S V^T

    Attributes:
        names: names of the public columns.
        axes: V sqrt(n) / s_1, [encoded columns, inputs].
    """

    names: tuple[str, ...]
    axes: NDArray[np.float32]

    @classmethod
    def fit(cls, perturbed: PerturbedGraph, operators: GraphOperators) -> PublicInputs:
        """Return the map for the public columns of a graph; it has no inputs if nothing is public."""
        if (public := perturbed.public) is None:
            return NO_INPUTS
        found, communicator = smoothed_components(public, operators, 0), operators.communicator
        here = AttributeColumns.of(public).transposed(found.scores.cpu().numpy())
        products = communicator.all_reduce_sum(torch.from_numpy(here).double())
        values = found.singular_values.double().cpu()
        return cls(public.names, (products / (values * values[0])).float().numpy())

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        return int(self.axes.shape[1])

    def beside(self, private: Tensor, perturbed: PerturbedGraph) -> Tensor:
        """Return private inputs with the public ones beside them, [nodes, columns]; refuse a graph that lacks them."""
        if not self.names:
            return private
        columns = AttributeColumns.of(perturbed.public_columns(self.names))
        if columns.width != len(self.axes):
            raise FitError(
                f"the public columns have {columns.width} values and the model was trained with {len(self.axes)}, as "
                "where a category is new: train the model again"
            )
        public = columns.times(self.axes)
        return torch.cat([private, torch.from_numpy(public).to(private)], dim=1)

    def added_to(self, state: FittedState) -> FittedState:
        """Return a fitted state with the map."""
        if not self.names:
            return state
        return FittedState(
            values=state.values | {"public": list(self.names)}, arrays=state.arrays | {"public_axes": self.axes}
        )

    @classmethod
    def taken_from(cls, state: FittedState) -> tuple[PublicInputs, FittedState]:
        """Return the map of a fitted state, and the state without it; refuse a map of another form."""
        if "public" not in state.values:
            return NO_INPUTS, state
        values, arrays = dict(state.values), dict(state.arrays)
        own = FittedState(
            values={"public": values.pop("public")}, arrays={"public_axes": arrays.pop("public_axes", np.zeros(0))}
        )
        own.check({"public": list[str], "public_axes": NDArray[np.float32]})
        if own.arrays["public_axes"].ndim != 2:
            raise FitError(f"its public axes have the shape {own.arrays['public_axes'].shape}, not [columns, inputs]")
        return cls(tuple(own.values["public"]), own.arrays["public_axes"]), replace(state, values=values, arrays=arrays)


NO_INPUTS = PublicInputs((), np.zeros((0, 0), dtype=np.float32))
"""The inputs where nothing is public."""
