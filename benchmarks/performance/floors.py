"""The least that each stage must move and compute, from the sizes of its arrays alone."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.performance.machine import Machine

_NUMBER = 4  # bytes of a float32, and of a 32-bit index


@dataclass(frozen=True, kw_only=True)
class Work:
    """What cannot be avoided.

    Attributes:
        moved: bytes of every array that a pass reads or writes, once each: the least that goes through memory where
            nothing stays in the cache between passes.
        touched: bytes of every load and store, with what a sparse product gathers again and again: the least
            that goes through the cache where everything stays there.
        operations: additions and multiplications.
    """

    moved: float = 0.0
    touched: float = 0.0
    operations: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            moved=self.moved + other.moved,
            touched=self.touched + other.touched,
            operations=self.operations + other.operations,
        )

    def __mul__(self, times: float) -> Work:
        return Work(moved=self.moved * times, touched=self.touched * times, operations=self.operations * times)

    def floors(self, machine: Machine) -> dict[str, float]:
        """Seconds under each of the machine's ceilings."""
        return {
            "memory": self.moved / machine.memory_bandwidth,
            "cache": self.touched / machine.cache_bandwidth,
            "peak": self.operations / machine.peak,
        }


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a data set.

    Attributes:
        nodes: n.
        edges: E, each counted once.
        columns: of the inputs, F.
        classes: c.
        hidden: units of the hidden layer, H.
    """

    nodes: int
    edges: int
    columns: int
    classes: int
    hidden: int


def streamed(*arrays: int) -> Work:
    """Arrays of so many bytes, each read or written once."""
    return Work(moved=sum(arrays), touched=sum(arrays))


def sparse_product(sizes: Sizes, columns: int, *, loops: bool) -> Work:
    """One hop: the matrix and the columns in, the columns out, and a row gathered for every entry."""
    entries = 2 * sizes.edges + (sizes.nodes if loops else 0)
    matrix = _NUMBER * (2 * entries + sizes.nodes)
    rows = _NUMBER * sizes.nodes * columns
    return Work(
        moved=matrix + 2 * rows,
        touched=matrix + _NUMBER * entries * columns + rows,
        operations=2 * entries * columns,
    )


def randomization(sizes: Sizes, features: int) -> Work:
    """A byte in and out for each feature, eight for each label."""
    return streamed(2 * sizes.nodes * features, 2 * 8 * sizes.nodes)


def feature_reconstruction(sizes: Sizes, features: int, hops: int) -> Work:
    """Reports in, columns of numbers out, and the hops between."""
    columns = _NUMBER * sizes.nodes * sizes.columns
    return streamed(sizes.nodes * features, columns) + sparse_product(sizes, sizes.columns, loops=True) * hops


def label_reconstruction(sizes: Sizes, hops: int) -> Work:
    """Likewise for the label."""
    columns = _NUMBER * sizes.nodes * sizes.classes
    return streamed(8 * sizes.nodes, columns) + sparse_product(sizes, sizes.classes, loops=True) * hops


def clustering(sizes: Sizes) -> Work:
    """The graph in, a number for each node out: METIS does far more, and how much depends on the graph."""
    return streamed(8 * (2 * sizes.edges + sizes.nodes), 8 * sizes.nodes)


def bags(sizes: Sizes) -> Work:
    """Cluster, label and membership of every node in."""
    return streamed(17 * sizes.nodes)


def sage_epoch(sizes: Sizes, *, replicas: int = 1, sharing: int = 1) -> Work:
    """Of one replica: the loss with its gradient, and the score of the weights.

    The propagated inputs and the inputs themselves (2F columns) are multiplied forwards and for the weights' gradient.
    Hidden units are written and read, and so is their gradient. The second layer (2c columns) is computed for the loss
    and for the score and differentiated both ways; its classes are propagated for the loss, for the score and back.

    Args:
        sizes: of the data set.
        replicas: that read the graph together.
        sharing: of these, how many read the same inputs.
    """
    nodes, inputs, outputs = sizes.nodes, 2 * sizes.columns, 2 * sizes.classes
    products = 2 * (2 * nodes * inputs * sizes.hidden) + 4 * (2 * nodes * sizes.hidden * outputs)
    arrays = _NUMBER * nodes * (2 * inputs / sharing + 4 * sizes.hidden)
    dense = Work(moved=arrays, touched=arrays, operations=products)
    return dense + sparse_product(sizes, sizes.classes * replicas, loops=False) * (3 / replicas)


def veil(sizes: Sizes, versions: int, *, steps: int, sweeps: int, runs: int = 1, seeds: int = 1) -> Work:
    """Of one run: powers of the graph with every version of the labels and a seed's signs, and belief propagation.

    A sweep reads every message and writes it again, with one exponential and one logarithm; both its strengths.

    Args:
        sizes: of the data set.
        versions: of the label reports.
        steps: of the longest range.
        sweeps: of either strength.
        runs: that share a graph.
        seeds: how many different ones they have.
    """
    columns = versions * sizes.classes
    signs = sparse_product(sizes, 16, loops=False) * (steps * seeds / runs)
    messages = Work(
        moved=2 * _NUMBER * 2 * sizes.edges * columns,
        touched=4 * _NUMBER * 2 * sizes.edges * columns,
        operations=8 * 2 * sizes.edges * columns,
    )
    return sparse_product(sizes, columns, loops=False) * steps + signs + messages * (2 * sweeps)


def control(sizes: Sizes, restarts: int, steps: int) -> Work:
    """All restarts through every step once, and the chosen one again."""
    return sparse_product(sizes, sizes.classes * restarts, loops=False) * steps
