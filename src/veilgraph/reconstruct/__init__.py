"""Reconstruction of feature and label distributions from reports and the public graph.

Reconstruction is post-processing of reports: it costs no privacy.
"""

from veilgraph.graph.clustering import cluster
from veilgraph.reconstruct.bags import Bags, bag_proportions
from veilgraph.reconstruct.features import ReconstructedFeatures, reconstruct_features
from veilgraph.reconstruct.labels import ReconstructedLabels, reconstruct_labels
from veilgraph.reconstruct.propagation import NeighbourhoodMean

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
