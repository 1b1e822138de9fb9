"""Views by JAX's own functions, of values that it traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ....specs import View

__all__ = ["run_view"]


def run_view(spec: View, inputs: Sequence[Any]) -> Any:
    """The array that a View makes of others."""
    jnp = sys.modules["jax"].numpy
    x, params = inputs[0], spec.params
    match spec.kind:
        case "reshape":
            return jnp.reshape(x, params)
        case "transpose":
            return jnp.transpose(x, params)
        case "broadcast":
            return jnp.broadcast_to(x, params)
        case "expand":
            return jnp.expand_dims(x, params)
        case "squeeze":
            return jnp.squeeze(x, params)
        case "slice":
            return x[tuple(slice_of(*s) for s in params)]
        case "unslice":
            shape, slices = params
            return jnp.zeros(shape, x.dtype).at[
                tuple(slice_of(*s) for s in slices)].set(x)
    return jnp.concatenate(inputs, params[0])


def slice_of(start: int, stop: int, step: int) -> slice:
    """The slice of `slice.indices`; backwards it may end before the first element."""
    return slice(start, None if step < 0 and stop < 0 else stop, step)
