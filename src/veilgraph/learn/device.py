"""Where to compute."""

from __future__ import annotations

import torch

from veilgraph.errors import RunError


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU where there is one.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise RunError(f"device is '{name}': choose auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise RunError("device is 'cuda', but there is no usable GPU here: use --device cpu or auto")
    return torch.device(name)
