"""Launch plans: everything a launch needs except addresses and numbers.

A plan depends on the spec and on the dtypes, shapes and strides of the operands, never
on which arrays they are; calls with equal ones share it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..arrays import ordinal
from ..backend import Backend, Launcher, Signature
from ..errors import KernelTypeError
from ..scalar.typing.types import Type
from ..specs import Contract, Map, Reduce, Row, Spec
from ..specs.base import KEPT
from ..specs.shapes import check_count
from ..support.loop_nests import (
    Nest,
    Strides,
    dense_strides,
    ordered_strides,
    stride_code,
)
from ..support.records import record
from .nests import (
    Frame,
    Operand,
    contract_frame,
    map_frame,
    memory_order,
    nest,
    reduce_frame,
    row_frame,
)
from .outputs import check_casting, check_distinct, check_shape

__all__ = ["Arguments", "LaunchPlan", "Request", "Result", "arguments", "make_plan"]

Shape = tuple[int, ...]


@record
class Arguments:
    """Kinds and names of a spec's inputs; the kind ``"scalar"`` is a number.

    `callers` are `callers.Caller` by the types of the arguments; kept here so that a
    call need not hash its spec.
    """

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    callers: dict[tuple[type | None, ...], Any] = field(default_factory=dict)


@lru_cache(maxsize=KEPT)
def arguments(spec: Spec) -> Arguments:
    """Kinds and names of the inputs of `spec`."""
    match spec:
        case Row():
            return Arguments(spec.kinds, spec.inputs)
        case Contract():
            return Arguments(("element", "element", *spec.kinds),
                             ("a", "b", *spec.epilogue.params[1:]))
        case Map():
            params = spec.function.params
        case Reduce():
            params = spec.map.params
        case _:
            raise KernelTypeError(f"{spec!r} is no spec that launches a kernel")
    pairs = [(kind, name) for kind, name in zip(spec.kinds, params, strict=True)
             if kind not in ("index", "size", "scatter")]
    return Arguments(tuple(k for k, _ in pairs), tuple(n for _, n in pairs))


@record(frozen=True)
class Request:
    """The key of a plan: spec, device, shapes, strides and dtypes.

    Attributes
    ----------
    operands
        Shape and strides of the array inputs.
    types
        The type of every input, numbers included.
    outs
        Shape, strides and dtype of the outputs that the caller gave.
    dtypes
        Dtypes that the caller asked for; None: as the spec says.
    names
        Of the inputs, for messages.
    reorder
        Whether a new output may lie in memory as the inputs do; C order otherwise.
    """

    spec: Spec
    backend: Backend
    device: str
    operands: tuple[Operand, ...]
    types: tuple[Type, ...]
    outs: tuple[tuple[Shape, Strides, np.dtype] | None, ...] | None
    dtypes: tuple[np.dtype | None, ...] | None
    names: tuple[str, ...]
    casting: str
    reorder: bool


@record(frozen=True)
class Result:
    """Shape, dtype and strides of an output; strides are None for C order."""

    shape: Shape
    dtype: np.dtype
    strides: Strides | None


@record(frozen=True)
class LaunchPlan:
    """The launch plan of a spec for operands of one layout.

    Attributes
    ----------
    results
        How to make each output that was not given.
    zeros
        Outputs to fill with zeros first.
    shape, strides
        As in `Call`.
    moves
        By how many bytes each pointer moves; None if none does.
    ordinal
        The device's.
    launcher
        None if there is nothing to compute.
    extents
        As in `Call`.
    """

    results: tuple[Result, ...]
    zeros: tuple[int, ...]
    shape: Shape
    strides: tuple[Strides, ...]
    moves: tuple[int, ...] | None
    ordinal: int
    launcher: Launcher | None
    extents: tuple[Shape, ...]


def make_plan(request: Request) -> LaunchPlan:
    """Check shapes and dtypes, lay out outputs and loops, and find the kernel.

    Raises
    ------
    ShapeError
        Inputs do not fit together, or an output given does not fit them.
    KernelTypeError
        An output given cannot hold the result.
    OverlapError
        Two elements of an output given are one.
    """
    spec = request.spec
    kinds = arguments(spec).kinds
    named = [(k, n) for k, n in zip(kinds, request.names, strict=True) if k != "scalar"]
    raw = tuple(kind == "raw" for kind, _ in named)
    frame = _frame(request, raw, tuple(n for k, n in named if k != "raw"))
    if not isinstance(spec, Contract):  # whose loops are not all in one array
        check_count(frame.extents, spec.name)
    results = _results(request, frame)
    for result in results:
        check_count(result.shape, spec.name)
    scattered = len(results) - len(frame.outputs)
    strides = [_strides(result) for result in results]
    loops = nest(frame, strides[:len(frame.outputs)])
    indexed = (*raw, *(False,) * len(frame.outputs), *(True,) * scattered)
    own = [steps for (_, steps), is_raw in zip(request.operands, raw, strict=True)
           if is_raw] + strides[len(frame.outputs):]
    extents = tuple(shape for (shape, _), is_raw in zip(request.operands, raw,
                                                        strict=True) if is_raw)
    extents += tuple(result.shape for result in results[len(frame.outputs):])
    merged, moves, codes = _merge(spec, loops, indexed, own)
    dtypes = [t for t, k in zip(request.types, kinds, strict=True) if k != "scalar"]
    dtypes += [result.dtype for result in results]
    in_bytes = tuple(move * np.dtype(dtype).itemsize  # type: ignore[arg-type]
                     for move, dtype in zip(moves, dtypes, strict=True))
    launcher = None
    if _runs(spec, frame):
        launcher = find_launcher(request.backend, spec.kernel, Signature(
            request.types, tuple(r.dtype for r in results), loops.ranks, codes))
    return LaunchPlan(results, _zeros(spec, frame), loops.shape, merged,
                      in_bytes if any(in_bytes) else None, ordinal(request.device),
                      launcher, extents)


def _frame(request: Request, raw: tuple[bool, ...], names: tuple[str, ...]) -> Frame:
    operands = [operand for operand, is_raw in zip(request.operands, raw, strict=True)
                if not is_raw]
    match request.spec:
        case Map() as spec:
            given = (request.outs or ())[:len(spec.function.results)]
            target = next((out[0] for out in given if out is not None), None)
            return map_frame(spec, operands, names, target)
        case Reduce() as spec:
            return reduce_frame(spec, operands, names)
        case Row() as spec:
            return row_frame(spec, operands, names)
        case Contract() as spec:
            return contract_frame(spec, operands, names)
    raise KernelTypeError(f"{request.spec!r} is no spec that launches a kernel")


def _results(request: Request, frame: Frame) -> tuple[Result, ...]:
    """Shape, dtype and strides of every output; given ones are checked."""
    shapes = [tuple(1 if axis < 0 else frame.extents[axis] for axis in placement)
              for placement in frame.outputs]
    shapes += getattr(request.spec, "scatter_shapes", ())
    for what, given in (("out", request.outs), ("dtypes", request.dtypes)):
        if given is not None and len(given) != len(shapes):
            raise KernelTypeError(f"{request.spec.name} has {len(shapes)} outputs, got "
                                  f"{what} of length {len(given)}")
    natural = _natural_types(request, len(shapes))
    outs = request.outs or (None,) * len(shapes)
    results = []
    for number, (shape, dtype, out) in enumerate(
            zip(shapes, natural, outs, strict=True)):
        if out is None:
            results.append(Result(shape, dtype, _order(request, frame, number, shape)))
            continue
        name = "out" if len(shapes) == 1 else f"out[{number}]"
        check_shape(name, out[0], shape)
        check_casting(name, dtype, out[2], request.casting)
        check_distinct(name, out[0], out[1])
        results.append(Result(shape, out[2], out[1]))
    return tuple(results)


def _natural_types(request: Request, count: int) -> Sequence[np.dtype]:
    asked = request.dtypes or (None,) * count
    if None not in asked:
        return [dtype for dtype in asked if dtype is not None]
    natural = request.spec.result_types(request.types)
    return [a if a is not None else n for a, n in zip(asked, natural, strict=True)]


def _order(request: Request, frame: Frame, number: int, shape: Shape) -> Strides | None:
    if not request.reorder or number >= len(frame.outputs):
        return None
    if isinstance(request.spec, Contract):
        return None
    order = memory_order(frame, number)
    return None if order is None else ordered_strides(shape, order)


def _strides(result: Result) -> Strides:
    return dense_strides(result.shape) if result.strides is None else result.strides


def _merge(spec: Spec, loops: Nest, indexed: Sequence[bool], own: Sequence[Strides],
           ) -> tuple[tuple[Strides, ...], Strides, tuple[str, ...]]:
    """Strides, offsets and stride codes of all operands, raw ones included."""
    code = partial(_contract_code, loops.ranks) if isinstance(spec, Contract) \
        else _last_code
    looped, rest, moves = iter(loops.strides), iter(own), iter(loops.offsets)
    strides, moved, codes = [], [], []
    for position, is_raw in enumerate(indexed):
        steps = next(rest) if is_raw else next(looped)
        strides.append(steps)
        moved.append(0 if is_raw else next(moves))
        codes.append(f"r{len(steps)}" if is_raw else code(position, steps))
    return tuple(strides), tuple(moved), tuple(codes)


def _last_code(position: int, strides: Strides) -> str:
    return stride_code(strides[-1])


def _contract_code(ranks: tuple[int, ...], position: int, strides: Strides) -> str:
    batch, m, n, k = ranks
    last = {"m": batch + m - 1, "n": batch + m + n - 1, "k": batch + m + n + k - 1}
    pair = ("mk", "kn")[position] if position < 2 else "mn"
    return "".join(stride_code(strides[last[axis]]) for axis in pair)


def _runs(spec: Spec, frame: Frame) -> bool:
    """Whether there is anything to compute: no group of the outputs' loops is empty."""
    groups = (0, 1, 2) if isinstance(spec, Contract) else (0,)
    return all(frame.count(group) for group in groups)


def _zeros(spec: Spec, frame: Frame) -> tuple[int, ...]:
    """Numbers of the outputs to fill with zeros before the launch."""
    if isinstance(spec, Map):
        first = len(frame.outputs)
        return tuple(range(first, first + len(spec.scatter_shapes)))
    if isinstance(spec, Row) and not frame.count(0):
        return tuple(i for i, out in enumerate(spec.outs)
                     if out.kind in ("column", "scalar"))
    return ()


_LAUNCHERS: dict[tuple[Any, ...], Launcher] = {}
_BUILDING = threading.RLock()


def _renew_lock() -> None:
    """Make a new lock in a forked child: its holder may not exist there."""
    global _BUILDING
    _BUILDING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def find_launcher(backend: Backend, kernel: Spec, signature: Signature) -> Launcher:
    """Find or build the launcher of a kernel, once for all threads."""
    key = (backend, kernel, signature)
    found = _LAUNCHERS.get(key)
    if found is None:
        with _BUILDING:
            found = _LAUNCHERS.get(key)
            if found is None:
                found = backend.build(kernel, signature)
                while len(_LAUNCHERS) >= KEPT:
                    del _LAUNCHERS[next(iter(_LAUNCHERS))]
                _LAUNCHERS[key] = found
    return found
