"""Launch plans: everything a launch needs except addresses and numbers.

A plan depends on the spec and on the dtypes, shapes and strides of the operands, never
on which arrays they are; calls with equal ones share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import ordinal
from ..backend import Backend, Launcher, Signature
from ..errors import KernelTypeError
from ..scalar.typing.types import Type
from ..specs import Spec
from ..specs.base import KEPT
from ..specs.shapes import check_count
from ..support.forks import free_in_child
from ..support.loop_nests import (
    Frame,
    Layout,
    Nest,
    Strides,
    dense_strides,
    memory_order,
    nest,
    ordered_strides,
    stride_codes,
)
from ..support.records import record
from .outputs import check_casting, check_distinct, check_shape

__all__ = ["Arguments", "LaunchPlan", "Request", "Result", "arguments",
           "find_launcher", "make_plan"]

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
    pairs = spec.parameters
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
    operands: tuple[Layout, ...]
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
    extents, boxes
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
    boxes: tuple[tuple[tuple[int, int], ...], ...] = ()


#: Finds the launcher of a kernel.
Find = Callable[[Backend, Spec, Signature], Launcher]


def make_plan(request: Request, find: Find | None = None) -> LaunchPlan:
    """Check shapes and dtypes, lay out outputs and loops, and find the kernel.

    `find` is asked for the launcher, `find_launcher` by default.

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
    merged, moves, codes = _merge(frame, loops, indexed, own)
    dtypes = [t for t, k in zip(request.types, kinds, strict=True) if k != "scalar"]
    dtypes += [result.dtype for result in results]
    in_bytes = tuple(move * np.dtype(dtype).itemsize  # type: ignore[arg-type]
                     for move, dtype in zip(moves, dtypes, strict=True))
    launcher = None
    if all(frame.count(group) for group in frame.needed):
        kernel = spec.kernel_for(frame, request.types)
        launcher = (find or find_launcher)(request.backend, kernel, Signature(
            request.types, tuple(r.dtype for r in results), loops.ranks, codes))
    zeros = _zeros(request, frame, len(results))
    return LaunchPlan(results, zeros, loops.shape, merged,
                      in_bytes if any(in_bytes) else None, ordinal(request.device),
                      launcher, extents, loops.boxes)


def _frame(request: Request, raw: tuple[bool, ...], names: tuple[str, ...]) -> Frame:
    operands = [operand for operand, is_raw in zip(request.operands, raw, strict=True)
                if not is_raw]
    outs = request.outs or ()
    looped = outs[:len(outs) - len(request.spec.scatter_shapes)]
    target = next((out[0] for out in looped if out is not None), None)
    return request.spec.frame(operands, names, target)


def _results(request: Request, frame: Frame) -> tuple[Result, ...]:
    """Shape, dtype and strides of every output; given ones are checked."""
    shapes = [*frame.shapes, *request.spec.scatter_shapes]
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
    order = memory_order(frame, number)
    return None if order is None else ordered_strides(shape, order)


def _strides(result: Result) -> Strides:
    return dense_strides(result.shape) if result.strides is None else result.strides


def _merge(frame: Frame, loops: Nest, indexed: Sequence[bool], own: Sequence[Strides],
           ) -> tuple[tuple[Strides, ...], Strides, tuple[str, ...]]:
    """Strides, offsets and stride codes of all operands, raw ones included."""
    looped = zip(loops.strides, loops.offsets, stride_codes(frame, loops), strict=True)
    rest = ((steps, 0, f"r{len(steps)}") for steps in own)
    strides, moves, codes = zip(*[next(rest if is_raw else looped)
                                  for is_raw in indexed], strict=True)
    return strides, moves, codes


def _zeros(request: Request, frame: Frame, count: int) -> tuple[int, ...]:
    """Numbers of the outputs to fill with zeros before the launch."""
    outs, looped = request.outs or (None,) * count, len(frame.outputs)
    return (*request.spec.zeros(frame),
            *(number for number in range(looped, count) if outs[number] is None))


_LAUNCHERS: dict[tuple[Any, ...], Launcher] = {}
_BUILDING = free_in_child(threading.RLock())


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
