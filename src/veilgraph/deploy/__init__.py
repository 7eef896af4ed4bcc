"""From collected reports to a model folder with its card, and from a model folder to predictions."""

from veilgraph.deploy.fit_collected import train_on_store
from veilgraph.deploy.model_card import ModelCard, complete_card, make_card, read_card
from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.prediction import Predictions, predict_nodes, write_predictions
from veilgraph.deploy.under_torchrun import predict_under_torchrun, shards_beside, train_under_torchrun

__all__ = [
    "Model",
    "ModelCard",
    "Predictions",
    "complete_card",
    "make_card",
    "predict_nodes",
    "predict_under_torchrun",
    "read_card",
    "shards_beside",
    "train_on_store",
    "train_under_torchrun",
    "write_predictions",
]
