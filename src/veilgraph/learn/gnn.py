"""What all methods with a GNN share: training, prediction, saving."""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veilgraph.errors import FitError
from veilgraph.files import write_whole
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.backbones import BackboneFactory, make_backbone
from veilgraph.learn.device import resolve_device
from veilgraph.learn.losses import noisy_log_likelihood
from veilgraph.learn.method import Method, check_fit_input
from veilgraph.learn.trainer import LearningCurve, train
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class GNNMethod(Method):
    """A GNN on inputs that a subclass makes from reports, with a loss that a subclass defines.

    Args:
        backbone: "sage", "gcn", "gat", or a function (num_inputs, num_classes) -> torch.nn.Module whose
            forward(x, edge_index) gives logits.
        dropout: of the named backbones.
        learning_rate: of Adam.
        weight_decay: of Adam.
        epochs: full-batch steps.
        seed: of initial weights and dropout; torch's global state is left alone.
        device: "auto", "cpu" or "cuda".
    """

    backbone: str | BackboneFactory = "sage"
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 100
    seed: int = 0
    device: str = "auto"
    curve: LearningCurve = field(init=False, repr=False, compare=False)
    _num_inputs: int = field(init=False, default=0, repr=False, compare=False)
    _model: nn.Module | None = field(init=False, default=None, repr=False, compare=False)
    _probabilities: NDArray[np.float32] | None = field(init=False, default=None, repr=False, compare=False)

    @abstractmethod
    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """What the GNN sees of every node."""

    @abstractmethod
    def _loss(self, perturbed: PerturbedGraph, split: Split, operators: GraphOperators) -> Callable[[Tensor], Tensor]:
        """The objective, as a function of the logits of every node."""

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Train on training reports; keep the epoch that explains the validation reports best."""
        check_fit_input(perturbed, split)
        if self.epochs < 1:
            raise FitError(f"epochs is {self.epochs}: train for at least 1")
        device = resolve_device(self.device)
        operators = GraphOperators(perturbed.graph, device)
        inputs = self._inputs(perturbed, operators)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            model = self._make_model(inputs.shape[1], perturbed.schema.num_classes).to(device)
            self.curve = train(
                model,
                inputs,
                operators.edge_index,
                loss=self._loss(perturbed, split, operators),
                score=_validation_score(perturbed, split, device),
                epochs=self.epochs,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
            )
        self._model, self._num_inputs = model, inputs.shape[1]
        self._probabilities = _forward(model, inputs, operators.edge_index)
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities; for another graph its own reports are reconstructed and the GNN applied to them."""
        if self._model is None or self._probabilities is None:
            raise FitError(f"{type(self).__name__} was not fitted yet: call fit(perturbed, split) first")
        if perturbed is None:
            return self._probabilities
        operators = GraphOperators(perturbed.graph, next(self._model.parameters()).device)
        return _forward(self._model, self._inputs(perturbed, operators), operators.edge_index)

    def save(self, folder: str | Path) -> None:
        """Write parameters (JSON) and weights (npz). Nothing that is saved is code."""
        probabilities = self.predict_proba()
        if self._model is None:
            raise FitError("there is nothing to save before fit")
        weights = {f"weight:{name}": tensor.cpu().numpy() for name, tensor in self._model.state_dict().items()}
        buffer = io.BytesIO()
        np.savez(buffer, probabilities=probabilities, **weights)
        document = {
            "method": self.name,
            "parameters": self._parameters(),
            "num_inputs": self._num_inputs,
            "curve": vars(self.curve),
        }
        write_whole(Path(folder) / "weights.npz", buffer.getvalue())
        write_whole(Path(folder) / "model.json", json.dumps(document, indent=2))

    @classmethod
    def load(cls, folder: str | Path, *, backbone: BackboneFactory | None = None, device: str = "auto") -> Self:
        """Read what `save` wrote; a model with a backbone of your own needs its factory again."""
        try:
            document = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
            weights = io.BytesIO((Path(folder) / "weights.npz").read_bytes())
            arrays = dict(np.load(weights, allow_pickle=False))
        except (OSError, ValueError, BadZipFile) as error:
            raise FitError(f"{folder} does not hold a readable model: {error}") from error
        if document.get("method") != cls.name:
            raise FitError(f"{folder} holds a model of '{document.get('method')}', not of '{cls.name}'")
        parameters: dict[str, Any] = document["parameters"]
        if parameters["backbone"] == "custom" and backbone is None:
            raise FitError(f"{folder} was trained with a backbone of your own: give load(..., backbone=factory)")
        parameters.update({"device": device}, **({"backbone": backbone} if backbone else {}))
        method = cls(**parameters)
        method._restore(arrays, LearningCurve(**document["curve"]), int(document["num_inputs"]))
        return method

    def _parameters(self) -> dict[str, Any]:
        parameters = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return parameters | ({"backbone": "custom"} if callable(self.backbone) else {})

    def _make_model(self, num_inputs: int, num_classes: int) -> nn.Module:
        return make_backbone(self.backbone, num_inputs=num_inputs, num_classes=num_classes, dropout=self.dropout)

    def _restore(self, arrays: dict[str, NDArray[Any]], curve: LearningCurve, num_inputs: int) -> None:
        self.curve, self._num_inputs = curve, num_inputs
        self._probabilities = arrays.pop("probabilities")
        self._model = self._make_model(num_inputs, self._probabilities.shape[1]).to(resolve_device(self.device))
        self._model.load_state_dict({name.removeprefix("weight:"): torch.from_numpy(a) for name, a in arrays.items()})
        self._model.eval()


def _validation_score(perturbed: PerturbedGraph, split: Split, device: torch.device) -> Callable[[Tensor], Tensor]:
    nodes = torch.from_numpy(split.validation & perturbed.has_label).to(device)
    labels = torch.from_numpy(perturbed.labels).to(device)[nodes]
    channel = perturbed.label_mechanism.channel
    return lambda logits: noisy_log_likelihood(logits[nodes].softmax(dim=1), labels, channel)


def _forward(model: nn.Module, inputs: Tensor, edge_index: Tensor) -> NDArray[np.float32]:
    with torch.no_grad():
        probabilities: NDArray[np.float32] = model(inputs, edge_index).softmax(dim=1).cpu().numpy()
    return probabilities
