"""From collected reports to a model folder with its card, and from a model folder to predictions."""

from veilgraph.deploy.group_shares import GroupShares, Share, estimate_shares, shares_of
from veilgraph.deploy.model_card import ModelCard, complete_card, make_card, read_card
from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.predict_shards import predict_shards
from veilgraph.deploy.prediction import Predictions, predict_nodes, write_predictions
from veilgraph.deploy.shards_of_tables import shards_beside
from veilgraph.deploy.sources import GivenReports, SeriesSource, ShardSource, Source, StoreSource, open_source
from veilgraph.deploy.training import train
from veilgraph.deploy.training_options import TrainingOptions

__all__ = [
    "GivenReports",
    "GroupShares",
    "Model",
    "ModelCard",
    "Predictions",
    "SeriesSource",
    "ShardSource",
    "Share",
    "Source",
    "StoreSource",
    "TrainingOptions",
    "complete_card",
    "estimate_shares",
    "make_card",
    "open_source",
    "predict_nodes",
    "predict_shards",
    "read_card",
    "shards_beside",
    "shares_of",
    "train",
    "write_predictions",
]
