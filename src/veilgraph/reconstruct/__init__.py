"""From reports and public structure to feature and label distributions. Post-processing: it costs no privacy."""

from veilgraph.reconstruct.clusters import cluster
from veilgraph.reconstruct.features import ReconstructedFeatures, reconstruct_features
from veilgraph.reconstruct.labels import ReconstructedLabels, reconstruct_labels
from veilgraph.reconstruct.propagation import NeighbourhoodMean
from veilgraph.reconstruct.proportions import Bags, bag_proportions

__all__ = [
    "Bags",
    "NeighbourhoodMean",
    "ReconstructedFeatures",
    "ReconstructedLabels",
    "bag_proportions",
    "cluster",
    "reconstruct_features",
    "reconstruct_labels",
]
