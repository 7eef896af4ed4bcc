"""From collected reports to a model folder, and from a model folder to predictions."""

from veilgraph.deploy.fit_collected import train_on_store, train_under_torchrun
from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.prediction import predict_nodes, write_predictions

__all__ = ["Model", "predict_nodes", "train_on_store", "train_under_torchrun", "write_predictions"]
