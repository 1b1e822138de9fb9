"""Views of Dask arrays, by Dask's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...errors import UnsupportedError
from ...specs import View
from .blocks import Call, array_module

__all__ = ["broadcast", "run_view", "unslice"]


def run_view(call: Call) -> Sequence[Any]:
    """The array that a View makes of others, in its dtype."""
    made = _view(call.spec, call.inputs)
    (dtype,) = call.dtypes
    return [made if made.dtype == dtype else made.astype(dtype)]


def _view(spec: View, inputs: Sequence[Any]) -> Any:
    da, x, params = array_module(), inputs[0], spec.params
    match spec.kind:
        case "reshape":
            return _reshape(x, params)
        case "transpose":
            return x.transpose(params)
        case "broadcast":
            return broadcast(x, params)
        case "expand":
            return da.expand_dims(x, params)
        case "squeeze":
            return da.squeeze(x, params)
        case "slice":
            return x[tuple(_slice(*s) for s in params)]
        case "unslice":
            return unslice(x, *params)
    return da.concatenate(inputs, params[0])


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    """By blocks where Dask can, else of one chunk if that is not too large.

    Raises
    ------
    UnsupportedError
        It is.
    """
    from dask import config
    from dask.utils import parse_bytes

    try:
        return x.reshape(shape)
    except NotImplementedError as error:  # axes that neither merge nor split
        if x.nbytes > parse_bytes(config.get("array.chunk-size")):
            raise UnsupportedError(
                f"reshape: Dask does not reshape {x.shape} to {shape} by chunks, and "
                f"the {x.nbytes} bytes are too many for one; merge or split one axis "
                "at a time, or use x.rechunk(-1) first if it fits") from error
        return x.rechunk(-1).reshape(shape)


def _slice(start: int, stop: int, step: int) -> slice:
    """The slice of `slice.indices`; backwards it may end before the first element."""
    return slice(start, None if step < 0 and stop < 0 else stop, step)


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """Repeat `x` in chunks of Dask's size, where Dask would make one."""
    da = array_module()
    if not prod(shape):
        return da.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    chunks = da.core.normalize_chunks(
        tuple("auto" if k < lead or x.shape[k - lead] != n else x.chunks[k - lead]
              for k, n in enumerate(shape)), shape, dtype=x.dtype)
    return da.broadcast_to(x, shape, chunks=chunks)


def unslice(x: Any, shape: tuple[int, ...], slices: Sequence[Any]) -> Any:
    """Zeros with `x` stored in a slice."""
    da = array_module()
    if all(step == 1 for _, _, step in slices):
        return da.pad(x, [(start, n - start - m) for n, m, (start, _, _) in zip(
            shape, x.shape, slices, strict=True)])
    made = da.zeros_like(x, shape=shape)
    made[tuple(_slice(*s) for s in slices)] = x
    return made
