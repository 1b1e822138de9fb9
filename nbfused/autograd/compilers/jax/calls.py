"""Operations on values that JAX traces: primitives with rules from the specs.

``call_p`` is a call of a spec.  ``tangent_p`` is its derivative along tangents, which
is linear in them: transposed it is the spec's pullback.  Both are differentiated,
batched and staged as any other primitive is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from ....arrays import check_dtype
from ....arrays.detect import is_array, library_of
from ....errors import KernelTypeError
from ....scalar.typing.python_numbers import number_type
from ....specs import Spec, View
from ...calls.samples import run_batched
from ...graph import Pass
from ...nodes import NUMBERS, RecordingPlan, is_floating, plan
from ...tape import apply
from ..identity import Bound, Call, call_of
from ..pulling import forward_call, pull, recording_of, result_dtypes
from .kernels import number_of
from .primitives import (
    call_foreign,
    check_extents,
    instantiated,
    new_primitive,
    no_tangent,
    set_rules,
    transposed_linear,
)
from .views import before_broadcast, run_view

__all__ = ["checked", "run_traced"]

#: On traced values: each step is a call again.
_TRACED = Pass(apply, lambda data, edge: data, True)


def run_traced(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
    """Run a spec on arrays of which some are traced by JAX."""
    jax = sys.modules["jax"]
    names = options.get("names") or [str(k) for k in range(len(inputs))]
    if out is not None and any(o is not None for o in out):
        raise KernelTypeError(f"out: {spec.name} is traced by JAX, whose arrays are "
                              "immutable; leave out=None")
    given = [checked(x, name, spec.name)
             for x, name in zip(inputs, names, strict=False)]
    if not spec.launches:
        return (run_view(cast(View, spec), given),)
    given = before_broadcast(spec, given)
    call = _canonical(call_of(spec, given, options["dtypes"], 0), given, jax)
    numbers = tuple([x.item() if isinstance(x, np.generic) else x
                     for x in given if isinstance(x, NUMBERS)])
    made = _primitives().call.bind(
        *[x for x in given if not isinstance(x, NUMBERS)], bound=Bound(call, numbers))
    return tuple(made)


def checked(x: Any, name: str, caller: str) -> Any:
    """An input as JAX takes it: NumPy's arrays are constants.

    Raises
    ------
    KernelTypeError
        It is an array of another library, or of a dtype that JAX does not have.
    """
    jax = sys.modules["jax"]
    if isinstance(x, NUMBERS) or not is_array(x):
        return x
    library = library_of(x).name
    if library not in ("jax", "numpy"):
        raise KernelTypeError(
            f"{caller}: {name} is a {type(x).__name__} beside a value that JAX "
            "traces; expected arrays of JAX: use jax.numpy.asarray")
    if library == "numpy":
        held = jax.dtypes.canonicalize_dtype(x.dtype)
        if held != x.dtype:
            raise KernelTypeError(
                f"{caller}: {name} is a NumPy array of {x.dtype}, of which JAX "
                f"would make {held} without a word; use {name}.astype('{held}'), or "
                "jax.config.update('jax_enable_x64', True)")
        return jax.numpy.asarray(x)
    check_dtype(x.dtype, name)
    return x


def _canonical(call: Call, given: Sequence[Any], jax: Any) -> Call:
    """The call with dtypes that JAX has: without 64 bits in its 32-bit mode."""
    found = result_dtypes(call, _types(given))
    held = tuple([np.dtype(jax.dtypes.canonicalize_dtype(d)) for d in found])
    asked = tuple([have.name if have != want else before for want, have, before in zip(
        found, held, call.dtypes or (None,) * len(found), strict=True)])
    return Call(call.spec, asked if any(asked) else None, call.numbers, len(found))


def _types(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([number_type(x) if isinstance(x, NUMBERS) else np.dtype(x.dtype)
                  for x in values])


def _avals(bound: Bound, arrays: Sequence[Any]) -> list[Any]:
    """Shape and dtype of each result."""
    shaped = sys.modules["jax"].core.ShapedArray
    values = bound.inputs(arrays)
    shapes = bound.call.spec.out_shapes(tuple([tuple(getattr(x, "shape", ()))
                                               for x in values]))
    dtypes = result_dtypes(bound.call, _types(values))
    return [shaped(s, d) for s, d in zip(shapes, dtypes, strict=True)]


class _Derivative(NamedTuple):
    """The derivative of a call: the call that saves, and the plan to pull back."""

    bound: Bound
    planned: RecordingPlan


def _derivative(bound: Bound, arrays: Sequence[Any],
                wanted: Sequence[bool]) -> _Derivative | None:
    """Plan the derivative by some of the arrays; None if there is none."""
    values, marks = bound.inputs(arrays), iter(wanted)
    needs = tuple([kind is None and next(marks) for kind in bound.call.numbers])
    planned = plan(bound.call.spec, needs,
                   tuple([tuple(getattr(x, "shape", ())) for x in values]),
                   _types(values), bound.call.asked)
    if planned is None:
        return None
    call = forward_call(bound.call, planned)
    return _Derivative(Bound(_canonical(call, values, sys.modules["jax"]),
                             bound.numbers), planned)


class _Primitives(NamedTuple):
    call: Any
    tangent: Any


@cache
def _primitives() -> _Primitives:
    """The primitives, made once JAX is imported."""
    found = _Primitives(new_primitive("nbfused_call", _avals_of_call, _called),
                        new_primitive("nbfused_tangent", _avals_of_tangent, _pushed))
    set_rules(found.call, _jvp_of_call, partial(transposed_linear, found.call),
              _batched_call)
    set_rules(found.tangent, _jvp_of_tangent, _transposed, _batched_tangent)
    return found


def _avals_of_call(*arrays: Any, bound: Bound) -> list[Any]:
    return _avals(bound, arrays)


def _called(*arrays: Any, bound: Bound) -> list[Any]:
    """Run a call in a compiled program."""
    check_extents(bound.call.spec.name, arrays)
    made = _avals(bound, arrays)
    shapes = [[(tuple(x.shape), np.dtype(x.dtype)) for x in some]
              for some in (arrays, made)]
    return call_foreign(number_of(bound, *shapes), arrays, made)


def _jvp_of_call(primals: Sequence[Any], tangents: Sequence[Any], *,
                 bound: Bound) -> Any:
    from jax.interpreters import ad

    wanted = [type(t) is not ad.Zero for t in tangents]
    derivative = _derivative(bound, primals, wanted)
    call, tangent = _primitives()
    if derivative is None:
        made = call.bind(*primals, bound=bound)
        return made, [no_tangent(x, ad) for x in made]
    made = call.bind(*primals, bound=derivative.bound)
    moved = iter(tangent.bind(
        *primals, *made, *[t for t in tangents if type(t) is not ad.Zero],
        bound=derivative.bound, wanted=tuple(wanted)))
    count = bound.call.outputs
    return made[:count], [
        next(moved) if is_floating(x.dtype) else no_tangent(x, ad)
        for x in made[:count]]


def _split(values: Sequence[Any], bound: Bound) -> tuple[Any, Any, Any]:
    """Inputs, outputs and tangents of `tangent_p`."""
    arrays = bound.call.numbers.count(None)
    ends = arrays, arrays + bound.call.outputs
    return values[:ends[0]], values[ends[0]:ends[1]], values[ends[1]:]


def _avals_of_tangent(*values: Any, bound: Bound, wanted: tuple[bool, ...]) -> Any:
    _, outputs, _ = _split(values, bound)
    shaped = sys.modules["jax"].core.ShapedArray
    return [shaped(x.shape, x.dtype) for x in outputs if is_floating(x.dtype)]


def _pulled(bound: Bound, wanted: tuple[bool, ...], arrays: Sequence[Any],
            outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """Cotangents of the wanted arrays, from one of each floating output."""
    derivative = _derivative(bound, arrays, wanted)
    assert derivative is not None
    planned, call = derivative.planned, derivative.bound.call
    present = [is_floating(x.dtype) for x in outputs]
    woven = bound.inputs(arrays)
    saved = [woven[k] for k in planned.inputs if call.numbers[k] is None]
    saved += [outputs[k] for k in planned.outputs]
    found = pull(recording_of(planned, call, _types(woven)), call, present,
                 [*saved, *cotangents], bound.numbers, _TRACED)
    jnp = sys.modules["jax"].numpy
    places = [k for k, kind in enumerate(call.numbers) if kind is None]
    return [jnp.zeros(woven[k].shape, woven[k].dtype) if found[k] is None else found[k]
            for k, want in zip(places, wanted, strict=True) if want]


def _pushed(*values: Any, bound: Bound, wanted: tuple[bool, ...]) -> list[Any]:
    """Tangents of the outputs: the pullback, which is linear, pulled back itself."""
    jax = sys.modules["jax"]
    arrays, outputs, tangents = _split(values, bound)
    nothing = [jax.numpy.zeros(x.shape, x.dtype) for x in outputs
               if is_floating(x.dtype)]
    _, back = jax.vjp(
        lambda *cotangents: _pulled(bound, wanted, arrays, outputs, cotangents),
        *nothing)
    return list(back(list(tangents)))


def _jvp_of_tangent(primals: Sequence[Any], tangents: Sequence[Any],
                    **params: Any) -> Any:
    jax = sys.modules["jax"]
    from jax.interpreters import ad

    return jax.jvp(partial(_pushed, **params), tuple(primals), tuple([
        instantiated(t, ad) for t in tangents]))


def _transposed(cotangents: Sequence[Any], *values: Any, bound: Bound,
                wanted: tuple[bool, ...]) -> list[Any]:
    from jax.interpreters import ad

    arrays, outputs, tangents = _split(values, bound)
    found = _pulled(bound, wanted, arrays, outputs,
                    [instantiated(c, ad) for c in cotangents])
    made = [g if ad.is_undefined_primal(t) else None
            for g, t in zip(found, tangents, strict=True)]
    return [None] * (len(arrays) + len(outputs)) + made


def _batched_call(values: Sequence[Any], dims: Sequence[Any], *, bound: Bound) -> Any:
    jnp = sys.modules["jax"].numpy
    size = next(x.shape[d] for x, d in zip(values, dims, strict=True)
                if d is not None)
    held = bound.inputs([x if d is None else jnp.moveaxis(x, d, 0)
                          for x, d in zip(values, dims, strict=True)])
    marks = iter(dims)
    has = tuple([kind is None and next(marks) is not None
                 for kind in bound.call.numbers])
    shapes = tuple([tuple(getattr(x, "shape", ()))[some:]
                    for x, some in zip(held, has, strict=True)])
    made = run_batched(bound.call.spec, held, has, shapes, size, bound.call.asked)
    return made, [0] * len(made)


def _batched_tangent(values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    jax = sys.modules["jax"]
    made = jax.vmap(partial(_pushed, **params), in_axes=tuple(dims))(*values)
    return made, [0] * len(made)
