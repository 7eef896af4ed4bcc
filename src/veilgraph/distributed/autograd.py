"""Functions whose gradients are written out by hand."""

from __future__ import annotations

from typing import Any

from torch.autograd import Function


def applied(function: type[Function], *arguments: Any) -> Any:
    """What the function gives, for torch to differentiate; torch itself does not say of what type that is."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
