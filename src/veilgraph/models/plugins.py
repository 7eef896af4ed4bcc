"""Python files of the reader's own, imported by path: the methods and data sets that they register have names then."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from veilgraph.errors import RunError, VeilgraphError

_IMPORTED: dict[Path, None] = {}


def import_files(paths: Iterable[Path]) -> None:
    """Run Python files once in this process, in order. They are code: import only what you trust.

    A file can import whatever is installed. A file that fails is refused with the reason.
    """
    for path in (path.resolve() for path in paths):
        if path not in _IMPORTED:
            _import(path)
            _IMPORTED[path] = None


def imported_files() -> tuple[Path, ...]:
    """Return the files that were imported, for a worker process that imports the same."""
    return tuple(_IMPORTED)


def _import(path: Path) -> None:
    name = f"_veilgraph_plugin_{path.stem}_{len(_IMPORTED)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise RunError(f"{path} is not a Python file: give the file that registers your method or data set")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of its classes are looked up there
    try:
        spec.loader.exec_module(module)
    except VeilgraphError:
        raise
    except Exception as error:
        raise RunError(f"{path} cannot be imported ({type(error).__name__}: {error}): correct it") from error
