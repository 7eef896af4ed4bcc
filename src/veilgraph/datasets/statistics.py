"""Statistics of a data set: the columns of the paper's Table 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from veilgraph.datasets.archive import Archive, csr_rows


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """One row of Table 1; shares are percentages.

    Attributes:
        nodes: |V|.
        edges: |E|, undirected, without self loops.
        average_degree: 2 |E| / |V|.
        columns: d, the raw columns.
        sparsity: share of zeros in the raw columns.
        classes: c.
        features: d', the number of reported features; None where the paper omits it because nothing is merged.
        feature_sparsity: share of zeros in the reported features; None where `features` is None.
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
    """Compute the statistics of an archive, with `group` adjacent columns merged into one feature."""
    nodes, width = (int(size) for size in archive.arrays["x_shape"])
    edges = archive.arrays["edge_index"].shape[1]
    columns = archive.arrays["x_indices"].astype(np.int64)
    rows = csr_rows(archive.arrays["x_indptr"])
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
    """Return the fields that differ from the published ones after rounding to one decimal, as the paper does.

    >>> published = Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=49.9, classes=2)
    >>> differing(Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=50.0, classes=2), published)
    ('sparsity',)
    """
    ours = asdict(measured)
    return tuple(
        field for field, value in asdict(published).items() if value is not None and round(ours[field], 1) != value
    )
