"""Values that a shell proposes with the Tab key: data sets, methods, mechanisms and experiments, and files of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from veilgraph.errors import VeilgraphError
from veilgraph.privacy.mechanisms.registry import MECHANISMS


def complete_dataset(incomplete: str) -> list[str]:
    """Propose data sets: known names, and archives and folders by their path."""
    from veilgraph.datasets.catalogue import known_datasets
    from veilgraph.datasets.registry import EMBEDDED

    return _starting(incomplete, sorted([*EMBEDDED, *known_datasets()]), suffix=".npz", folders=True)


def complete_public_dataset(incomplete: str) -> list[str]:
    """Propose data sets that can be fetched."""
    from veilgraph.datasets.catalogue import known_datasets

    return _starting(incomplete, sorted(known_datasets()))


def complete_method(incomplete: str) -> list[str]:
    """Propose methods; none where the libraries for learning are not installed."""
    with contextlib.suppress(ImportError, VeilgraphError):
        from veilgraph.models.registry import METHODS

        return _starting(incomplete, METHODS)
    return []


def complete_experiment(incomplete: str) -> list[str]:
    """Propose experiments: known names, and TOML files by their path."""
    with contextlib.suppress(ImportError, VeilgraphError):
        from veilgraph.experiments.grid import experiment_names

        return _starting(incomplete, experiment_names(), suffix=".toml")
    return []


def complete_mechanism(incomplete: str) -> list[str]:
    """Propose mechanisms."""
    return _starting(incomplete, MECHANISMS)


def _starting(incomplete: str, names: Iterable[str], *, suffix: str | None = None, folders: bool = False) -> list[str]:
    """Return the names that start with a text, and the files of a suffix whose path does.

    >>> _starting("ci", ["citeseer", "cora"])
    ['citeseer']
    """
    found = [name for name in names if name.startswith(incomplete)]
    if suffix is None:
        return found
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    start = "" if incomplete.endswith("/") else typed.name
    before = incomplete.removesuffix(start) if start else incomplete

    def wanted(path: Path) -> bool:
        return path.name.startswith(start) and (path.suffix == suffix or (folders and "/" in before and path.is_dir()))

    with contextlib.suppress(OSError):
        found += [before + path.name for path in sorted(folder.iterdir()) if wanted(path)]
    return found
