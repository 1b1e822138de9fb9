"""Views by PyTorch's own functions, which its compilers know."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...specs import View

__all__ = ["run_view"]


def run_view(spec: View, inputs: Sequence[Any]) -> Any:
    """The tensor that a View makes of others."""
    torch = sys.modules["torch"]
    x, params = inputs[0], spec.params
    match spec.kind:
        case "reshape":
            return x.reshape(params)
        case "transpose":
            return x.permute(params)
        case "broadcast":
            return x.expand(params)
        case "expand":
            for axis in params:
                x = x.unsqueeze(axis)
            return x
        case "squeeze":
            for axis in sorted(params, reverse=True):
                x = x.squeeze(axis)
            return x
        case "slice":
            return _sliced(x, params)
        case "unslice":
            return _unsliced(x, *params)
    dtype = x.dtype
    for other in inputs[1:]:
        dtype = torch.promote_types(dtype, other.dtype)
    return torch.cat([t.to(dtype) for t in inputs], params[0])


def _sliced(x: Any, slices: Sequence[tuple[int, int, int]]) -> Any:
    """A part of a tensor: steps backwards are turned round, which copies."""
    reversed_axes = [a for a, (_, _, step) in enumerate(slices) if step < 0]
    forward = [_forward(*s) for s in slices]
    x = x[tuple([slice(*s) for s in forward])]
    return x.flip(reversed_axes) if reversed_axes else x


def _forward(start: int, stop: int, step: int) -> tuple[int, int, int]:
    """The same indices, the lowest first."""
    if step > 0:
        return start, max(stop, start), step
    count = max(0, (start - stop - step - 1) // -step)
    low = start + (count - 1) * step
    return (low, start + 1, -step) if count else (0, 0, 1)


def _unsliced(x: Any, shape: tuple[int, ...],
              slices: Sequence[tuple[int, int, int]]) -> Any:
    """Zeros, with a tensor stored in a part of them."""
    space = x.new_zeros(shape)
    reversed_axes = [a for a, (_, _, step) in enumerate(slices) if step < 0]
    part = tuple([slice(*_forward(*s)) for s in slices])
    space[part] = x.flip(reversed_axes) if reversed_axes else x
    return space
