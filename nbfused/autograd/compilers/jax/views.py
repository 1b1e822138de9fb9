"""Views by JAX's own functions, of values that it traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import ReferenceType, ref

from ....specs import Map, Spec, View

__all__ = ["before_broadcast", "run_view"]


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
            return _spread(jnp.broadcast_to(x, params), x)
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


#: What a broadcast value was before, by the id of the value, which is let go of.
_SOURCES: dict[int, tuple[ReferenceType[Any], Any]] = {}


def _spread(made: Any, source: Any) -> Any:
    """Note that `made` is `source` broadcast."""
    if made is not source:
        key = id(made)
        _SOURCES[key] = ref(made, lambda _: _SOURCES.pop(key, None)), source
    return made


def before_broadcast(spec: Spec, inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a Map as they were before they were broadcast.

    Its kernel broadcasts by itself; XLA would store a sum's cotangent for each element.
    """
    found = [_SOURCES.get(id(x), (None, x))[1] for x in inputs]
    if not isinstance(spec, Map) or not set(spec.kinds) <= {"element", "scalar"}:
        return list(inputs)
    before, after = (spec.out_shapes(tuple([
        tuple(getattr(x, "shape", ())) for x in some])) for some in (inputs, found))
    return found if before == after else list(inputs)


def slice_of(start: int, stop: int, step: int) -> slice:
    """The slice of `slice.indices`; backwards it may end before the first element."""
    return slice(start, None if step < 0 and stop < 0 else stop, step)
