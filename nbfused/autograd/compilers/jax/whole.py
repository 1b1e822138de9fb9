"""A fused function inside of JAX's transforms: one primitive, and one for its tangents.

``whole_p`` runs the program of a function.  ``tangent_p`` is its derivative along
tangents; transposed it is the program of the gradient.  A function is traced step by
step instead where one program would not be right, or not fast: where it changes an
argument, or calls what launches no kernel; and where it multiplies matrices, as the
gradient would do so again, having saved nothing but the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from ....errors import KernelTypeError, UnsupportedError
from ....support.records import record
from ....support.trees import Structure
from ...calls.tracked import on_placeholders
from ...nodes import NUMBERS, is_floating
from .calls import checked
from .kernels import number_of_program
from .primitives import (
    call_foreign,
    check_extents,
    instantiated,
    new_primitive,
    no_tangent,
    set_rules,
    transposed_linear,
)
from .whole_op import Trace, WholeOp, in_dtypes_of_jax

__all__ = ["WholeCalls", "call_in_steps"]


_LIMIT = 256  # calls of one function


@record(frozen=True)
class _Whole:
    """The op for arguments of one structure, and the structure of its results."""

    op: WholeOp
    results: Structure


class WholeCalls:
    """The calls of a fused function.

    Parameters
    ----------
    name
        What it is called.
    trace
        Makes programs of functions.
    """

    def __init__(self, name: str, trace: Trace) -> None:
        self._name, self._trace = name, trace
        self._known: dict[Hashable, _Whole | None] = {}

    def __call__(self, key: Hashable, leaves: Sequence[Any],
                 flat: Callable[[], Any]) -> tuple[Any] | None:
        """The result in a tuple; None of a function that is to be traced in steps.

        Parameters
        ----------
        key
            What is constant.
        leaves
            Arrays and numbers.
        flat
            Makes the function of these; it then has the structure of its `results`.
        """
        numbers = tuple([x if isinstance(x, NUMBERS) else None for x in leaves])
        try:
            arrays = [checked(x, f"argument {k}", self._name)
                      for k, x in enumerate(leaves) if not isinstance(x, NUMBERS)]
            check_extents(self._name, arrays)
        except (KernelTypeError, UnsupportedError):
            return None  # it is refused where it is used
        full = (key, tuple([(type(x), repr(x)) for x in numbers]),
                tuple([(x.shape, x.dtype) for x in arrays]),
                sys.modules["jax"].config.jax_enable_x64)
        if full not in self._known:
            if len(self._known) >= _LIMIT:
                self._known.clear()
            self._known[full] = self._find(flat(), numbers, arrays)
        found = self._known[full]
        if found is None:
            return None
        made = _primitives().whole.bind(*arrays, op=found.op)
        return (found.results.build(made),)

    def _find(self, flat: Any, numbers: tuple[Any, ...],
              arrays: Sequence[Any]) -> _Whole | None:
        """The op for such arguments."""
        def steps(*given: Any) -> Sequence[Any]:
            rest = iter(given)
            found: Sequence[Any] = call_in_steps(
                self._name, narrowed, [next(rest) if x is None else x for x in numbers])
            return found

        narrowed = in_dtypes_of_jax(flat)
        op = WholeOp(self._name, narrowed, numbers, self._trace, steps)
        if not op.fits(arrays) or (
                not op.program(arrays).cheap and _is_traced(steps, arrays)):
            return None
        return _Whole(op, flat.results)


def _is_traced(steps: Callable[..., Any], arrays: Sequence[Any]) -> bool:
    """Whether JAX traces a function; not if that changes values in place."""
    try:
        sys.modules["jax"].eval_shape(steps, *arrays)
    except TypeError:
        return False
    return True


def call_in_steps(name: str, function: Callable[..., Any], args: Sequence[Any],
                  kwargs: dict[str, Any] | None = None) -> Any:
    """Call a function on what JAX traces; NumPy's functions take placeholders of it."""
    try:
        return function(*args, **(kwargs or {}))
    except sys.modules["jax"].errors.TracerArrayConversionError:
        return on_placeholders(name, lambda args, kwargs: function(*args, **kwargs),
                               tuple(args), kwargs or {})


class _Primitives(NamedTuple):
    whole: Any
    tangent: Any


@cache
def _primitives() -> _Primitives:
    """The primitives, made once JAX is imported."""
    found = _Primitives(new_primitive("nbfused_fused", _avals, _run),
                        new_primitive("nbfused_fused_tangent", _avals_of_tangent,
                                      _pushed))
    set_rules(found.whole, _jvp, partial(transposed_linear, found.whole), _batched)
    set_rules(found.tangent, _jvp_of_tangent, _transposed, _batched_tangent)
    return found


def _avals(*arrays: Any, op: WholeOp) -> list[Any]:
    shaped = sys.modules["jax"].core.ShapedArray
    return [shaped(*x) for x in op.program(arrays).results]


def _run(*arrays: Any, op: WholeOp) -> list[Any]:
    """Run the program in a compiled one of JAX's."""
    program = op.program(arrays)
    return call_foreign(number_of_program(program), arrays, _avals(*arrays, op=op),
                        program.scratch)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, op: WholeOp) -> Any:
    jax = sys.modules["jax"]
    from jax.interpreters import ad

    moving = tuple([k for k, t in enumerate(tangents) if type(t) is not ad.Zero])
    floating = [x for x in _avals(*primals, op=op) if is_floating(x.dtype)]
    if floating and not op.pull(moving, len(floating)).fits([*primals, *floating]):
        return jax.jvp(op.steps, tuple(primals), tuple([
            instantiated(t, ad) for t in tangents]))
    made = _primitives().whole.bind(*primals, op=op)
    moved = iter(_primitives().tangent.bind(
        *primals, *[tangents[k] for k in moving], op=op, moving=moving)
        if floating else ())
    return made, [next(moved) if is_floating(x.dtype) else no_tangent(x, ad)
                  for x in made]


def _avals_of_tangent(*values: Any, op: WholeOp, moving: tuple[int, ...]) -> list[Any]:
    return [x for x in _avals(*values[:len(op.places)], op=op)
            if is_floating(x.dtype)]


def _pushed(*values: Any, op: WholeOp, moving: tuple[int, ...]) -> list[Any]:
    """Tangents of the floating results."""
    push = op.push(moving)
    if not push.fits(values):
        return list(push.steps(*values))
    return list(_primitives().whole.bind(*values, op=push))


def _jvp_of_tangent(primals: Sequence[Any], tangents: Sequence[Any],
                    **params: Any) -> Any:
    from jax.interpreters import ad

    return sys.modules["jax"].jvp(partial(_pushed, **params), tuple(primals), tuple([
        instantiated(t, ad) for t in tangents]))


def _transposed(cotangents: Sequence[Any], *values: Any, op: WholeOp,
                moving: tuple[int, ...]) -> list[Any]:
    from jax.interpreters import ad

    count = len(op.places)
    unknown = [ad.is_undefined_primal(t) for t in values[count:]]
    wanted = tuple([k for k, some in zip(moving, unknown, strict=True) if some])
    given = (*values[:count], *[instantiated(c, ad) for c in cotangents])
    found = iter(_primitives().whole.bind(*given, op=op.pull(wanted, len(cotangents))))
    return [None] * count + [next(found) if some else None for some in unknown]


def _batched(values: Sequence[Any], dims: Sequence[Any], *, op: WholeOp) -> Any:
    axes = tuple([None if d is None else int(d) for d in dims])
    samples = op.samples(axes)
    made = _primitives().whole.bind(*values, op=samples) if samples.fits(values) else \
        samples.steps(*values)
    return made, [0] * len(made)


def _batched_tangent(values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    made = sys.modules["jax"].vmap(partial(_pushed, **params), tuple(dims))(*values)
    return made, [0] * len(made)
