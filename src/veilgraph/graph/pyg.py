"""The bridge to torch_geometric, which is imported at its first use."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from veilgraph.errors import MissingExtraError


def pyg_module(name: str) -> Any:
    """Import a module of torch_geometric at its first use: the import takes longer than most fits."""
    with warnings.catch_warnings():
        # torch_geometric still uses torch.jit, which torch reports as deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="IProgress not found")  # its progress bars, in a notebook
        try:
            return importlib.import_module(f"torch_geometric.{name}")
        except ImportError:
            raise MissingExtraError("torch_geometric", "server") from None


def make_data(**attributes: Any) -> Any:
    """Return a `torch_geometric.data.Data` with these attributes; arrays become tensors, which share no memory."""
    data, tensor = pyg_module("data"), importlib.import_module("torch").tensor
    return data.Data(
        **{name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in attributes.items()}
    )
