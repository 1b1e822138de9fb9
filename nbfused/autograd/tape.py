"""`apply`, which runs and records every operation, and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

from ..arrays import (
    check_dtype,
    dtype_of,
    is_array,
    library_of,
)
from ..arrays.traced import Traced, TracedNumber, find_traced
from ..dispatch import direct_call, execute  # not `from .. import`: see `forks`
from ..errors import KernelTypeError, ShapeError, TapeError
from ..scalar.typing.python_numbers import number_type
from ..scalar.typing.types import Type, Weak
from ..specs import Spec, View
from .calls.keeping import KEEPING
from .gradients import seed_of, separate_gradients, without_repeats
from .graph import ADD, ONE, Edge, GraphArray, Ones, Pass
from .nodes import (
    NUMBERS,
    CachedRecording,
    RecordingPlan,
    SpecNode,
    is_number,
    link_view,
    note_view,
    plan,
)
from .recording import RECORDING
from .versions import note_write
from .walk import collect, walk_back

__all__ = [
    "IN_GRAPH",
    "PLAIN",
    "WEAK",
    "apply",
    "backward",
    "ones_like",
    "record_traced",
    "run_recorded",
    "tracked_by_library",
    "wrapped",
]

#: By type of input, who says whether it is more than data; None where nobody has to be
#: asked.  Those of more libraries are found out.
_TRACKS: dict[type, Callable[[Any], bool] | None] = dict.fromkeys(
    (np.ndarray, bool, int, float, complex))
#: Types of inputs that are arrays of the graph and not traced, as they are found out.
IN_GRAPH: set[type[GraphArray]] = set()

#: Wraps an output as what its inputs are: `Variable.at`.
_Wrap = Callable[[Any, Edge | None], GraphArray]


def apply(spec: Spec, inputs: Sequence[Any], *, out: Sequence[Any] | None = None,
          dtypes: Any = None, casting: str = "same_kind", names: Sequence[str] = (),
          like: Any = None) -> tuple[Any, ...]:
    """Run a spec, and record it if a gradient is wanted.

    Parameters
    ----------
    spec
        What to compute.
    inputs
        Arrays of one library, Variables, numbers.
    out
        For each output, None or where to store it.
    dtypes, casting, names, like
        As for `dispatch.execute`.

    Returns
    -------
    tuple
        Arrays of the library of the inputs; Variables if an input is one.  Those in
        `out` themselves.

    Raises
    ------
    TapeError
        `out` was given where the tape records.
    """
    options: dict[str, Any] = {"dtypes": dtypes, "casting": casting}
    if names:
        options["names"] = names
    if like is not None:
        options["like"] = like
    data: list[Any] = []
    edges: list[Edge | None] = []
    wrap: _Wrap | None = None
    tracked = False
    for x in inputs:
        kind = type(x)
        if kind in IN_GRAPH:
            wrap = kind.at
            data.append(x._value)
            edges.append(edge := x._edge)
            tracked |= edge is not None
            continue
        tracks = _TRACKS.get(kind, _tracks_first)
        if tracks is not None and tracks(x):
            return _on_others(spec, inputs, out, options)
        data.append(x)
        edges.append(None)
    if wrap is not None and tracked and RECORDING.get():
        recorded = run_recorded(spec, data, edges, out, options)
        if recorded is not None:
            found, results = recorded
            node = SpecNode(found, edges, data, results, names)
            if len(found.tracked) == 1:  # not by a call: most have one
                made = wrap(results[0], (node, 0))
                if found.view:
                    note_view(node, inputs[0], made)
                return (made,)
            return wrapped(node, results, wrap)
    if out is not None:
        return _store(spec, data, out, options, wrap)
    plain = execute(spec, data, **options)
    if wrap is None:
        return plain
    if type(spec) is View and spec.rearranges:
        return (link_view(spec, inputs[0], wrap(plain[0], None)),)
    return tuple([wrap(a, None) for a in plain])


def wrapped(node: SpecNode, results: Sequence[Any], wrap: _Wrap) -> tuple[Any, ...]:
    """The results of a recorded call, as what the inputs are."""
    made = []
    for k, tracked in enumerate(node.recording.tracked):
        made.append(wrap(results[k], (node, k) if tracked else None))
    return tuple(made)


def tracked_by_library(x: Any) -> bool:
    """Whether another library's own autograd tracks `x`."""
    if not is_array(x):
        return False
    library = library_of(x)
    return library.differentiates and library.tracks(x)


def _tracks_first(x: Any) -> bool:
    """`apply` for inputs of a new type: whether they need more than their data."""
    kind = type(x)
    if isinstance(x, (GraphArray, Traced)):
        return True
    if is_array(x):
        library = library_of(x)
        _TRACKS[kind] = library.tracks if library.differentiates else None
        return library.differentiates and library.tracks(x)
    return False


def _on_others(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
    """`apply` for inputs traced, tracked by another library, or of a new type."""
    new = False
    traced = find_traced(inputs)
    if traced is not None:
        return traced.record(spec, inputs, out, options)
    for x in inputs:
        if isinstance(x, GraphArray) and type(x) not in IN_GRAPH:
            IN_GRAPH.add(type(x))
            new = True
    if new:
        return apply(spec, inputs, out=out, **options)
    if any(is_array(x) and library_of(x).name == "jax" for x in inputs):
        return _apply_jax()(spec, inputs, out, options)
    return _apply_torch()(spec, inputs, out, options)  # the only library with a tape


@cache
def _apply_torch() -> Callable[..., tuple[Any, ...]]:
    from .torch_bridge import apply_torch

    return apply_torch


@cache
def _apply_jax() -> Callable[..., tuple[Any, ...]]:
    from .compilers.jax.calls import run_traced

    return run_traced


def record_traced(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                  options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Record a call on placeholders that a transform differentiates by.

    None if none of them is one, or there is no gradient.  Arrays and Variables that are
    no placeholders are constants to the transform.
    """
    edges = [x._edge if isinstance(x, Traced) and isinstance(x, GraphArray) else None
             for x in inputs]
    first = next((x for x, edge in zip(inputs, edges, strict=True)
                  if edge is not None), None)
    if first is None or not RECORDING.get():
        return None
    data = [x.plain() if isinstance(x, Traced) else
            x._value if isinstance(x, GraphArray) and x._edge is None else x
            for x in inputs]
    recorded = run_recorded(spec, data, edges, out, options)
    if recorded is None:
        return None
    found, results = recorded
    node = SpecNode(found, edges, data, results, options.get("names") or ())
    return wrapped(node, results, type(first).at)


def _store(spec: Spec, inputs: Sequence[Any], out: Sequence[Any],
           options: dict[str, Any], wrap: _Wrap | None = None) -> tuple[Any, ...]:
    """Run with the outputs that the caller gave, and return those."""
    if any(isinstance(o, GraphArray) and o.requires_grad for o in out) \
            and RECORDING.get():
        raise TapeError(f"out: {spec.name} cannot store into a Variable that requires "
                        "grad; use no_grad() around the update")
    if any(o is not None and not isinstance(o, GraphArray) and tracked_by_library(o)
           for o in out):
        if not any(getattr(o, "requires_grad", False) for o in out):
            return _apply_torch()(spec, inputs, out, options)  # it is traced
        raise TapeError(f"out: {spec.name} cannot store into a tensor that requires "
                        "grad; use torch.no_grad() around the update, or pass "
                        "out.detach()")
    places = tuple(o.data if isinstance(o, GraphArray) else o for o in out)
    results = execute(spec, inputs, out=places, **options)
    note_write(places)
    return tuple(
        given if given is not None else made if wrap is None else wrap(made, None)
        for given, made in zip(out, results, strict=True))


def run_recorded(spec: Spec, data: Sequence[Any], edges: Sequence[Edge | None],
                 out: Sequence[Any] | None, options: dict[str, Any],
                 ) -> tuple[CachedRecording, Sequence[Any]] | None:
    """Run a spec on `data`, of which some have `edges` in the graph.

    Returns
    -------
    CachedRecording, sequence
        What a node needs, and the results: the spec's, then what else is to be saved.
    None
        Nothing was run, as it has no gradient.
    """
    dtypes = options["dtypes"]
    if dtypes is not None:
        dtypes = tuple([None if d is None else check_dtype(d) for d in dtypes])
    key: list[Any] = [dtypes]
    for x, edge in zip(data, edges, strict=True):
        kind = type(x)
        if kind in WEAK:
            key.append(kind)
        elif isinstance(x, NUMBERS):
            key += (edge is not None, _type(x))
        else:  # the dtype of another library stands for ours
            key += (edge is not None, kind, x.shape, x.dtype)
    known = spec.__dict__.get("_recorded")
    cached: CachedRecording | None = \
        None if known is None else known.get(tuple(key))
    if cached is None:
        try:
            cached = _plan(spec, tuple(key), data, edges, dtypes)
        except ShapeError:  # says "input 0": a launch calls arguments by their names
            execute(spec, data, **options)
            raise
    found = cached.plan
    if found is None:
        return None
    if out is not None and any(o is not None for o in out):
        raise TapeError(
            f"out: {spec.name} is recorded, because an input requires grad, and cannot "
            "store into a given array; leave out=None and change nothing in place, "
            "or use no_grad()")
    results: Sequence[Any] | None
    keeper = KEEPING.get(get_ident()) if KEEPING else None
    if keeper is not None:
        results = keeper.results(found.forward, partial(
            _run_first, cached, found, data, dtypes, options))
        cached.results = tuple(map(dtype_of, results))
    else:
        results = None if cached.direct is None else cached.direct(*data)
        if results is None:
            results = _run_first(cached, found, data, dtypes, options)
    return cached, results


def _plan(spec: Spec, key: tuple[Any, ...], data: Sequence[Any],
          edges: Sequence[Edge | None], dtypes: Any) -> CachedRecording:
    """Plan how to record calls of `spec` that have this key."""
    known: dict[Any, CachedRecording] = spec.__dict__.setdefault("_recorded", {})
    shapes = tuple(() if is_number(x) else tuple(x.shape) for x in data)
    if len(known) >= _LIMIT:
        known.clear()
    needs = tuple([edge is not None for edge in edges])
    found = plan(spec, needs, shapes, tuple(map(_type, data)), dtypes)
    made = known[key] = CachedRecording(None) if found is None else CachedRecording(
        found, found.forward.name, found.tracked,
        view=type(spec) is View and spec.rearranges)
    return made


def _run_first(cached: CachedRecording, found: RecordingPlan, data: Sequence[Any],
               dtypes: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Run a recorded spec with all checks, so that later calls are direct."""
    if dtypes is not None:  # no wishes for what only the tape reads
        dtypes = (*dtypes, *(None,) * found.extra)
        options = {**options, "dtypes": dtypes}
    results = execute(found.forward, data, **options)
    if cached.results and find_traced(results) is not None:
        return results  # what is traced has no direct call, and its dtypes are known
    cached.results = tuple(map(dtype_of, results))
    cached.direct = direct_call(found.forward, data, None, dtypes=dtypes)
    return results


#: Most ways to record one spec.
_LIMIT = 1024

#: The weak type of a Python number.
WEAK = {kind: Weak(kind.__name__) for kind in (bool, int, float, complex)}


def _type(x: Any) -> Type:
    found = WEAK.get(type(x))
    if found is not None:
        return found
    if isinstance(x, TracedNumber):
        return x.number_type
    return number_type(x) if is_number(x) else dtype_of(x)


PLAIN = Pass(execute, lambda data, edge: data, False)


def ones_like(x: Any, mode: Pass = PLAIN) -> Any:
    """Ones of the shape, dtype and library of an array."""
    return mode.run(ONE, (x,), dtypes=(dtype_of(x),))[0]


def backward(output: GraphArray, grad: Any, mode: Pass, retain_graph: bool) -> None:
    """The implementation of `Variable.backward`."""
    edge = output._edge
    if edge is None:
        raise TapeError(
            "backward(): nothing was recorded for this Variable: no input had "
            "requires_grad=True, it was computed inside no_grad(), or it is detached")
    if grad is None and prod(output.shape) != 1:
        raise ShapeError(
            f"backward(): the output has shape {output.shape}; pass grad=, an array of "
            "that shape, or reduce it to one element, with sum() for example")
    if grad is None and output.dtype.kind == "c":
        raise KernelTypeError(
            f"backward(): the output has dtype {output.dtype}; pass grad=, a number of "
            "that dtype in an array, or take .real, .imag or abs() of it")
    if grad is not None:
        like = output._value  # NumPy's arrays are all of one library and in one place
        seed = grad if type(grad) is np.ndarray is type(like) and \
            grad.shape == like.shape and grad.dtype == like.dtype and \
            grad.flags.aligned and not mode.records else seed_of(output, grad, mode)
    elif mode.records:
        seed = ones_like(mode.lift(output.data, None), mode)
    else:
        seed = Ones(output.shape, output.dtype, output.data)
    found = walk_back([(edge, seed)], mode, keep=retain_graph or mode.records)
    if isinstance(output, Traced):
        found = {edge: g if mode.records else g.separate()
                 for edge, g in found.items()}
    elif not mode.records:
        found = separate_gradients(found, () if grad is None else (seed,))
    collect(found, not mode.records, partial(_accumulated, mode))


def _accumulated(mode: Pass, old: Any, gradient: Any) -> Any:
    if old is None:
        return gradient if isinstance(gradient, Traced) else without_repeats(gradient)
    if not mode.records and isinstance(old, GraphArray):
        old = old.data
    return mode.run(ADD, (old, gradient))[0]
