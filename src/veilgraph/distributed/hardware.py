"""The GPU of this machine, in words."""

from __future__ import annotations

import torch


def describe_gpu() -> str:
    """Return the name and the memory of the GPU, or the reason why the CPU is used."""
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return f"{torch.cuda.get_device_name(0)}, {memory:.0f} GiB, torch {torch.__version__}"
    why = "is built for the CPU alone" if torch.version.cuda is None else "finds no CUDA device"
    return f"none, the CPU is used: torch {torch.__version__} {why}"
