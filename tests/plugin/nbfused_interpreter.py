"""An out-of-tree backend: every spec evaluated on NumPy views by the interpreter.

Registered as a plugin by the entry point ``nbfused.backends`` of its distribution, or
by `nbfused.register`.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nbfused.arrays import NUMPY, Array, host_view
from nbfused.cpu import CpuBackend
from nbfused.errors import KernelTypeError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.specs import Contract, Map, Reduce, Row

IMPLICIT = ("index", "size", "scatter", "inside")


class InterpreterBackend(CpuBackend):
    """Runs in host memory, so it owns the same arrays as ``cpu``."""

    name = "interpreter"

    def build(self, spec: Any, signature: Any) -> Any:
        run = {Map: run_map, Reduce: run_reduce, Row: run_row, Contract: run_contract}
        if type(spec) not in run:
            raise KernelTypeError(f"{self.name} runs no {type(spec).__name__}: it has "
                                  "no threads; use the backend cpu")
        typed = spec.typed(signature.inputs, signature.outputs)
        kinds = ("element", "element") if isinstance(spec, Contract) else ()
        inputs = [t for t, k in zip(signature.inputs, kinds + tuple(
            k for k in spec.kinds if k not in IMPLICIT), strict=True) if k != "scalar"]

        boxes = boxes_of(typed) if isinstance(spec, Map) else {}

        def launch(call: Any) -> None:
            raw = iter(call.extents)
            arrays = [(around if typed.wraps[boxes[k]] else window)(
                          p, call.boxes[boxes[k]], s, d, call.shape) if k in boxes else
                      view(p, next(raw) if c[0] == "r" else call.shape, s, d)
                      for k, (p, s, d, c) in enumerate(zip(
                          call.pointers, call.strides, (*inputs, *signature.outputs),
                          signature.inner, strict=True))]
            with np.errstate(all="ignore"):
                run[type(spec)](typed, call, arrays[:len(inputs)], arrays[len(inputs):],
                                signature.ranks)

        return launch


def view(pointer: int, shape: Any, strides: Any, dtype: Any) -> np.ndarray:
    """The memory of the caller as a NumPy array."""
    return host_view(Array(pointer, shape, strides, dtype, "cpu", None, False, NUMPY,
                           None))


def boxes_of(typed: Any) -> dict[int, int]:
    """The numbers of the boxes of a Map's windows, by their places among its arrays."""
    arrays = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                strict=True) if k not in (*IMPLICIT, "scalar")]
    return {k: typed.box_of[p] for k, p in enumerate(arrays) if p in typed.box_of}


def region(box: Any) -> tuple[slice, ...]:
    """The points of a box."""
    return tuple(slice(low, high) for low, high in box)


def window(pointer: int, box: Any, strides: Any, dtype: Any, shape: Any) -> np.ndarray:
    """An input that is there on a box of points only, and 0 elsewhere."""
    made = np.zeros(shape, dtype)
    first = sum(low*s for (low, _), s in zip(box, strides, strict=True))
    extents = tuple(high - low for low, high in box)
    made[region(box)] = view(pointer + first*made.itemsize, extents, strides, dtype)
    return made


def around(pointer: int, box: Any, strides: Any, dtype: Any, shape: Any) -> np.ndarray:
    """An input that comes from its other end outside of a box."""
    moved = [low or high - n for (low, high), n in zip(box, shape, strict=True)]
    first = sum(by*s for by, s in zip(moved, strides, strict=True))
    whole = view(pointer + first*np.dtype(dtype).itemsize, shape, strides, dtype)
    return np.roll(whole, moved, range(len(shape)))


def inside(box: Any, shape: Any) -> np.ndarray:
    """Whether each point is in a box."""
    made = np.zeros(shape, bool)
    made[region(box)] = True
    return made


def bind(kinds: Any, arrays: Any, call: Any, shape: Any,
         scatter: Any = (), where: Any = ()) -> list[Any]:
    given = {"scalar": iter(call.scalars), "scatter": iter(scatter),
             "inside": iter(where),
             "index": iter([np.arange(prod(shape)).reshape(shape)] * 9),
             "size": iter([prod(shape)] * 9)}
    rest = iter(arrays)
    return [next(given.get(k, rest)) for k in kinds]


def store(out: np.ndarray, value: Any, drop: tuple[int, ...] = ()) -> None:
    """Write to the first element along the axes that the output does not have.

    Of a complex value a real output takes the real part.
    """
    value = np.asarray(value)
    if value.dtype.kind == "c" and out.dtype.kind != "c":
        value = value.real
    first(out, drop)[...] = value.astype(out.dtype)


def first(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The first element along axes of stride 0, also where their extent is 0."""
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
    return as_strided(x, shape, x.strides)


def run_map(typed: Any, call: Any, inputs: Any, outputs: Any, ranks: Any) -> None:
    count = len(typed.function.results)
    where = [inside(call.boxes[typed.box_of[p]], call.shape) for p, k in zip(
        typed.function.function.params, typed.kinds, strict=True) if k == "inside"]
    args = bind(typed.kinds, inputs, call, call.shape, outputs[count:], where)
    for out, value in zip(outputs, evaluate(typed.function, *args), strict=False):
        store(out, value)


def combined(stage: Any, state: Any, axes: tuple[int, ...], shape: Any) -> Any:
    """Fold the state along the axes, one element after another."""
    flat = [np.moveaxis(np.broadcast_to(s, shape), axes, range(-len(axes), 0)).reshape(
        *(n for a, n in enumerate(shape) if a not in axes), -1) for s in state]
    start = tuple(np.full(flat[0].shape[:-1], i.value, d)
                  for i, d in zip(stage.identity, stage.state, strict=True))
    return reduce(lambda a, k: evaluate(stage.merge, *a, *(f[..., k] for f in flat)),
                  range(flat[0].shape[-1]), start)


def run_reduce(typed: Any, call: Any, inputs: Any, outputs: Any, ranks: Any) -> None:
    axes = tuple(range(ranks[0], len(call.shape)))
    args = bind(typed.kinds, inputs, call, call.shape[ranks[0]:])
    values, count = evaluate(typed.element, *args), len(typed.state)
    state = combined(typed, values[:count], axes, call.shape)
    stored = len(typed.stored)
    for out, value in zip(outputs, values[count:], strict=False):
        store(out, np.broadcast_to(value, call.shape))
    named = dict(zip(typed.element.function.params, args, strict=True))
    rest = [prod(call.shape[ranks[0]:]) if k == "size" else named[p] for p, k in zip(
        typed.post.function.params, typed.post_kinds, strict=True) if k != "state"]
    for out, value in zip(outputs[stored:], evaluate(typed.post, *state, *rest),
                          strict=True):
        outer = call.shape[:ranks[0]]  # of a constant there is but one
        full = np.broadcast_to(value, outer).reshape(*outer, *(1,) * ranks[1])
        store(out, full, axes)


def run_row(typed: Any, call: Any, inputs: Any, outputs: Any, ranks: Any) -> None:
    last = len(call.shape) - 1
    scope = dict(zip(typed.inputs, bind(typed.kinds, inputs, call, ()), strict=True))
    scope |= {p: first(scope[p], (last,)) for p, k in zip(
        typed.inputs, typed.kinds, strict=True) if k == "row"}
    scope |= {"index": np.arange(call.shape[-1]), "size": call.shape[-1]}
    for s in typed.stages:
        element = evaluate(s.element, *(scope[p] for p in s.element.function.params))
        state = combined(s, element, (last,), call.shape)
        rest = s.post.function.params[len(state):]
        values = evaluate(s.post, *(v[..., None] for v in state), *(
            scope[p] for p in rest))
        scope |= dict(zip(s.names, values, strict=True))
    for o, out in zip(typed.outs, outputs, strict=True):
        (value,) = evaluate(o.function, *(scope[p] for p in o.function.function.params))
        if o.kind == "row":  # of which there is one even where columns are none
            one = np.asarray(value)[..., :1] if np.ndim(value) else value
            store(out, np.broadcast_to(one, (*call.shape[:-1], 1)), (last,))
            continue
        full = np.broadcast_to(value, call.shape)
        if o.kind in ("column", "scalar"):  # summed over rows, and over columns too
            axes = tuple(range(last if o.kind == "column" else last + 1))
            store(out, full.sum(axis=axes, keepdims=True, dtype=o.accumulator), axes)
        else:
            store(out, full)


def run_contract(typed: Any, call: Any, inputs: Any, outputs: Any, ranks: Any) -> None:
    inner = tuple(range(len(call.shape) - ranks[3], len(call.shape)))
    a, b = (np.asarray(x if f is None else evaluate(f, x)[0]).astype(typed.accumulator)
            for f, x in zip(typed.prologues, inputs, strict=False))
    total = np.broadcast_to(a * b, call.shape).sum(axis=inner, keepdims=True,
                                                   dtype=typed.accumulator)
    extras = [first(x, inner) for x in inputs[2:]]
    args = bind(typed.kinds, extras, call, ())
    for out, value in zip(outputs, evaluate(typed.epilogue, total, *args), strict=True):
        store(out, value, inner)
