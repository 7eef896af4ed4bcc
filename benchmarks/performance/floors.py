"""Lower bounds of each stage: bytes and operations that follow from the sizes of its arrays (a roofline model)."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.performance.machine import Machine

_NUMBER = 4  # bytes of a float32, and of a 32-bit index


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work that cannot be avoided.

    Attributes:
        moved: bytes of every array that a pass reads or writes, counted once. It is the least memory traffic if
            nothing stays in the cache between passes.
        touched: bytes of every load and store, including rows that a sparse product gathers repeatedly. It is the
            least cache traffic if everything stays in the cache.
        operations: number of additions and multiplications.
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
        """Return the lower bound in seconds for each limit of the machine."""
        return {
            "memory": self.moved / machine.memory_bandwidth,
            "cache": self.touched / machine.cache_bandwidth,
            "peak": self.operations / machine.peak,
        }


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a data set and its network.

    Attributes:
        nodes: number of nodes, n.
        edges: number of undirected edges, E.
        columns: number of input columns, F.
        classes: number of classes, c.
        hidden: number of hidden units, H.
    """

    nodes: int
    edges: int
    columns: int
    classes: int
    hidden: int


def streamed(*arrays: int) -> Work:
    """Return the work of reading or writing arrays of these sizes in bytes, each once."""
    return Work(moved=sum(arrays), touched=sum(arrays))


def sparse_product(sizes: Sizes, columns: int, *, loops: bool) -> Work:
    """Return the work of one hop: read matrix and columns, gather a row for each entry, write the columns."""
    entries = 2 * sizes.edges + (sizes.nodes if loops else 0)
    matrix = _NUMBER * (2 * entries + sizes.nodes)
    rows = _NUMBER * sizes.nodes * columns
    return Work(
        moved=matrix + 2 * rows,
        touched=matrix + _NUMBER * entries * columns + rows,
        operations=2 * entries * columns,
    )


def randomization(sizes: Sizes, features: int) -> Work:
    """Return the work of randomization: one byte in and out for each feature, eight for each label."""
    return streamed(2 * sizes.nodes * features, 2 * 8 * sizes.nodes)


def feature_reconstruction(sizes: Sizes, features: int, hops: int) -> Work:
    """Return the work of Algorithm 1: read reports, write columns of numbers, and the hops in between."""
    columns = _NUMBER * sizes.nodes * sizes.columns
    return streamed(sizes.nodes * features, columns) + sparse_product(sizes, sizes.columns, loops=True) * hops


def label_reconstruction(sizes: Sizes, hops: int) -> Work:
    """Return the work of Algorithm 2: as for features, with the classes as columns."""
    columns = _NUMBER * sizes.nodes * sizes.classes
    return streamed(8 * sizes.nodes, columns) + sparse_product(sizes, sizes.classes, loops=True) * hops


def clustering(sizes: Sizes) -> Work:
    """Return the work of reading the graph and writing a cluster for each node. METIS does much more than that."""
    return streamed(8 * (2 * sizes.edges + sizes.nodes), 8 * sizes.nodes)


def bags(sizes: Sizes) -> Work:
    """Return the work of reading cluster, label and training mask of every node."""
    return streamed(17 * sizes.nodes)


def sage_epoch(sizes: Sizes, *, replicas: int = 1, sharing: int = 1) -> Work:
    """Return the work of one replica in an epoch: the loss with its gradient, and the validation score.

    The propagated inputs and the inputs themselves (2F columns) are multiplied forwards and for the weights' gradient.
    Hidden units are written and read, and so is their gradient. The second layer (2c columns) is computed for the loss
    and for the score and differentiated both ways; its classes are propagated for the loss, for the score and back.

    Args:
        sizes: sizes of the data set.
        replicas: number of replicas that read the graph together.
        sharing: number of replicas that read the same inputs.
    """
    nodes, inputs, outputs = sizes.nodes, 2 * sizes.columns, 2 * sizes.classes
    products = 2 * (2 * nodes * inputs * sizes.hidden) + 4 * (2 * nodes * sizes.hidden * outputs)
    arrays = _NUMBER * nodes * (2 * inputs / sharing + 4 * sizes.hidden)
    dense = Work(moved=arrays, touched=arrays, operations=products)
    return dense + sparse_product(sizes, sizes.classes * replicas, loops=False) * (3 / replicas)


def veil(sizes: Sizes, versions: int, *, steps: int, sweeps: int, runs: int = 1, seeds: int = 1) -> Work:
    """Return the work of one fit of Veil: powers of the graph with all versions of the labels, belief propagation.

    A sweep reads every message and writes it again, with one exponential and one logarithm. The weaker
    belief propagation takes a third of the sweeps. The block model takes as many as it needs to converge: they are not
    counted.

    Args:
        sizes: sizes of the data set.
        versions: number of versions of the label reports (folds, and all labels).
        steps: steps of the longest range.
        sweeps: sweeps of belief propagation.
        runs: number of fits that share a graph.
        seeds: number of different seeds among them.
    """
    columns = versions * sizes.classes
    signs = sparse_product(sizes, 16, loops=False) * (steps * seeds / runs)
    messages = Work(
        moved=2 * _NUMBER * 2 * sizes.edges * columns,
        touched=4 * _NUMBER * 2 * sizes.edges * columns,
        operations=8 * 2 * sizes.edges * columns,
    )
    return sparse_product(sizes, columns, loops=False) * steps + signs + messages * (sweeps + sweeps / 3)


def control(sizes: Sizes, restarts: int, steps: int) -> Work:
    """Return the work of the control: all restarts through every step, and the chosen one again."""
    return sparse_product(sizes, sizes.classes * restarts, loops=False) * steps
