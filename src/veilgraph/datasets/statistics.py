"""The figures by which a data set is described: the columns of the paper's Table 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from veilgraph.datasets.archive import Archive


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """One row of the table; shares are percentages.

    Attributes:
        nodes: |V|.
        edges: |E|, undirected, without self loops.
        average_degree: 2 |E| / |V|.
        columns: d, the raw columns.
        sparsity: the share of zeros in the raw columns.
        classes: c.
        features: d', the reported features; None where the table leaves it out because nothing is merged.
        feature_sparsity: the share of zeros in the reported features; None likewise.
    """

    nodes: int
    edges: int
    average_degree: float
    columns: int
    sparsity: float
    classes: int
    features: int | None = None
    feature_sparsity: float | None = None


def measure(archive: Archive, *, group: int) -> Statistics:
    """What the arrays hold, `group` adjacent columns merged into one feature."""
    nodes, width = (int(size) for size in archive.arrays["x_shape"])
    edges = archive.arrays["edge_index"].shape[1]
    columns = archive.arrays["x_indices"].astype(np.int64)
    rows = np.repeat(np.arange(nodes), np.diff(archive.arrays["x_indptr"]))
    features = -(-width // group)
    merged = np.unique(rows * features + columns // group)
    return Statistics(
        nodes=nodes,
        edges=edges,
        average_degree=2 * edges / nodes,
        columns=width,
        sparsity=100 * (1 - columns.size / (nodes * width)),
        classes=int(archive.arrays["y"].max()) + 1,
        features=features,
        feature_sparsity=100 * (1 - merged.size / (nodes * features)),
    )


def differing(measured: Statistics, published: Statistics) -> tuple[str, ...]:
    """The fields in which a measurement, rounded to one decimal as in the table, is not the published figure.

    >>> published = Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=49.9, classes=2)
    >>> differing(Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=50.0, classes=2), published)
    ('sparsity',)
    """
    ours = asdict(measured)
    return tuple(
        field for field, figure in asdict(published).items() if figure is not None and round(ours[field], 1) != figure
    )
