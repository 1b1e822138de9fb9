"""`apply`, which runs and records every operation, and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    byte_range,
    check_dtype,
    describe,
    dtype_of,
    is_array,
    library_of,
)
from ..dispatch import direct_call, execute  # not `from .. import`: see `forks`
from ..dispatch.traced import Traced, TracedNumber, find_traced
from ..errors import DeviceError, KernelTypeError, ShapeError, TapeError
from ..scalar.typing.python_numbers import number_type
from ..scalar.typing.types import Type, Weak
from ..specs import Spec
from ..support.records import record
from .graph import (
    ADD,
    COPY,
    FULL,
    ONE,
    Edge,
    GraphArray,
    Leaf,
    Ones,
    Pass,
    walk_back,
)
from .nodes import RecordingPlan, SpecNode, is_number, plan
from .recording import recording
from .versions import note_write

__all__ = [
    "PLAIN",
    "apply",
    "backward",
    "check_gradient",
    "cotangent",
    "ones_like",
    "record_traced",
    "separate_gradients",
    "tracked_by_library",
    "without_repeats",
]

#: Types of inputs that nobody differentiates; those of more libraries are found out.
_PLAIN: set[type] = {np.ndarray, bool, int, float, complex}
#: Types of inputs that are arrays of the graph and not traced, as they are found out.
_IN_GRAPH: set[type[GraphArray]] = set()

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
    data, needs = [], []
    wrap: _Wrap | None = None
    for x in inputs:
        kind = type(x)
        if kind in _IN_GRAPH:
            wrap = kind.at
            data.append(x._value)
            needs.append(x._edge is not None)
        elif kind in _PLAIN or not (
                isinstance(x, (GraphArray, Traced)) or tracked_by_library(x)):
            data.append(x)
            needs.append(False)
        else:
            return _on_others(spec, inputs, out, options)
    if wrap is not None:
        return _on_data(spec, inputs, tuple(data), tuple(needs), out, options, wrap)
    if out is None:
        return execute(spec, inputs, **options)
    return _store(spec, inputs, out, options)


def tracked_by_library(x: Any) -> bool:
    """Whether another library's own autograd tracks `x`."""
    if type(x) in _PLAIN or not is_array(x):
        return False
    library = library_of(x)
    if library.differentiates:
        return library.tracks(x)
    _PLAIN.add(type(x))
    return False


def _on_others(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
    """`apply` for inputs traced, tracked by another library, or of a new type."""
    unknown = find_traced(inputs)
    if unknown is not None:
        return unknown.record(spec, inputs, out, options)
    if any(map(tracked_by_library, inputs)):
        from .torch_bridge import apply_torch  # the only library with a tape

        return apply_torch(spec, inputs, out, options)
    _IN_GRAPH.update(type(x) for x in inputs if isinstance(x, GraphArray))
    return apply(spec, inputs, out=out, **options)


def record_traced(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                  options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Record a call on placeholders that a transform differentiates by.

    None if none of them is one, or there is no gradient.  Arrays and Variables that are
    no placeholders are constants to the transform.
    """
    needs = tuple([isinstance(x, Traced) and isinstance(x, GraphArray)
                   and x.requires_grad for x in inputs])
    if True not in needs or not recording():
        return None
    data = tuple([x.plain() if isinstance(x, Traced) else x for x in inputs])
    wrap = type(inputs[needs.index(True)]).at
    return _record(spec, inputs, data, needs, out, options, wrap)


def _on_data(spec: Spec, inputs: Sequence[Any], data: tuple[Any, ...],
             needs: tuple[bool, ...], out: Sequence[Any] | None,
             options: dict[str, Any], wrap: _Wrap) -> tuple[Any, ...]:
    if True in needs and recording():
        made = _record(spec, inputs, data, needs, out, options, wrap)
        if made is not None:
            return made
    if out is not None:
        return _store(spec, data, out, options, wrap)
    return tuple(wrap(a, None) for a in execute(spec, data, **options))


def _store(spec: Spec, inputs: Sequence[Any], out: Sequence[Any],
           options: dict[str, Any], wrap: _Wrap | None = None) -> tuple[Any, ...]:
    """Run with the outputs that the caller gave, and return those."""
    if any(isinstance(o, GraphArray) and o.requires_grad for o in out) and recording():
        raise TapeError(f"out: {spec.name} cannot store into a Variable that requires "
                        "grad; use no_grad() around the update")
    if any(o is not None and not isinstance(o, GraphArray) and tracked_by_library(o)
           for o in out):
        raise TapeError(f"out: {spec.name} cannot store into a tensor that requires "
                        "grad; use torch.no_grad() around the update, or pass "
                        "out.detach()")
    places = tuple(o.data if isinstance(o, GraphArray) else o for o in out)
    results = execute(spec, inputs, out=places, **options)
    note_write(places)
    return tuple(
        given if given is not None else made if wrap is None else wrap(made, None)
        for given, made in zip(out, results, strict=True))


def _record(spec: Spec, inputs: Sequence[Any], data: tuple[Any, ...],
            needs: tuple[bool, ...], out: Sequence[Any] | None,
            options: dict[str, Any], wrap: _Wrap) -> tuple[Any, ...] | None:
    """Run a spec and record a node; None if it has no gradient."""
    dtypes = options.get("dtypes")
    if dtypes is not None:
        dtypes = tuple(None if d is None else check_dtype(d) for d in dtypes)
    # The dtype of another library stands for ours.
    key = (needs, dtypes, *[type(x) if type(x) in _WEAK else
                            _type(x) if is_number(x) else
                            (type(x), x.shape, x.dtype) for x in data])
    known: dict[Any, _CachedRecording] = spec.__dict__.setdefault("_recorded", {})
    entry = known.get(key)
    if entry is None:
        shapes = tuple(() if is_number(x) else tuple(x.shape) for x in data)
        if len(known) >= _LIMIT:
            known.clear()
        entry = known[key] = _CachedRecording(
            plan(spec, needs, shapes, tuple(map(_type, data)), dtypes))
    found = entry.plan
    if found is None:
        return None
    if out is not None and any(o is not None for o in out):
        raise TapeError(
            f"out: {spec.name} is recorded, because an input requires grad, and cannot "
            "store into a given array; leave out=None and change nothing in place, "
            "or use no_grad()")
    results = None if entry.direct is None else entry.direct(*data)
    if results is None:
        if dtypes is not None:  # no wishes for what only the tape reads
            options = {**options, "dtypes": (*dtypes, *(None,) * found.extra)}
        results = execute(found.forward, data, **options)
        entry.results = tuple(map(dtype_of, results))
        if dtypes is None:
            entry.direct = direct_call(found.forward, data, None)
    edges = [x._edge if want else None
             for x, want in zip(inputs, found.wants, strict=True)]
    node = SpecNode(found, edges, data, results, entry.results,
                    options.get("names") or ())
    return tuple([wrap(a, (node, k) if tracked else None)
                  for k, (a, tracked) in enumerate(zip(results, found.tracked,
                                                       strict=False))])


@record
class _CachedRecording:
    """The cached recording of calls of a spec that agree in types, shapes, dtypes.

    Attributes
    ----------
    plan
        None if there is nothing to differentiate.
    direct
        `dispatch.direct_call`, once there has been one.
    results
        Dtypes.
    """

    plan: RecordingPlan | None
    direct: Callable[..., Any] | None = None
    results: tuple[np.dtype, ...] = ()


_LIMIT = 1024  # ways to record one spec

#: The weak type of a Python number.
_WEAK = {kind: Weak(kind.__name__) for kind in (bool, int, float, complex)}


def _type(x: Any) -> Type:
    found = _WEAK.get(type(x))
    if found is not None:
        return found
    if isinstance(x, TracedNumber):
        return x.number_type
    return number_type(x) if is_number(x) else dtype_of(x)


PLAIN = Pass(execute, lambda data, edge: data, False)


def ones_like(x: Any, mode: Pass = PLAIN) -> Any:
    """Ones of the shape, dtype and library of an array."""
    return mode.run(ONE, (x,), dtypes=(dtype_of(x),))[0]


def check_gradient(name: str, given: Any, like: GraphArray) -> None:
    """Check that a gradient from the caller is an array where `like` is.

    Raises
    ------
    KernelTypeError
        No array, or one of another library.
    DeviceError
        It is on another device.
    """
    if isinstance(given, Traced):
        return
    value = given.data if isinstance(given, GraphArray) else given
    if not is_array(value):
        raise KernelTypeError(f"{name} is a {type(given).__name__}; expected an array "
                              f"of shape {like.shape} and dtype {like.dtype}")
    if isinstance(like, Traced):
        return
    found, wanted = describe(value, name), describe(like.data)
    if found.library is not wanted.library:
        raise KernelTypeError(
            f"{name} is an array of {found.library.name}; expected one of "
            f"{wanted.library.name}, as the Variable has: convert it (from_dlpack does "
            "not copy)")
    if found.device != wanted.device:
        raise DeviceError(f"{name} is on {found.device}; expected {wanted.device}, "
                          "where the Variable is: copy it there first")


def cotangent(like: GraphArray, given: Any, mode: Pass, name: str = "grad") -> Any:
    """Check a cotangent from the caller and convert it for the pass.

    A Python number stands for an array without dimensions.
    """
    if type(given) in (bool, int, float) and not like.shape:
        (given,) = PLAIN.run(FULL, (like.data, given), dtypes=(dtype_of(like),))
    elif isinstance(given, np.generic):
        given = np.asarray(given)
    check_gradient(name, given, like)
    if tuple(given.shape) != like.shape:
        raise ShapeError(f"{name}: shape {tuple(given.shape)}, expected {like.shape}, "
                         "that of the output")
    if dtype_of(given) != dtype_of(like):
        raise KernelTypeError(f"{name}: dtype {dtype_of(given)}, expected "
                              f"{like.dtype}, that of the output; use astype")
    if not isinstance(given, GraphArray):
        return mode.lift(given, None)
    return given if mode.records else given.data


def backward(output: GraphArray, grad: Any, mode: Pass, retain_graph: bool) -> None:
    """The implementation of `Variable.backward`."""
    if output.edge is None:
        raise TapeError(
            "backward(): nothing was recorded for this Variable: no input had "
            "requires_grad=True, it was computed inside no_grad(), or it is detached")
    if grad is None and prod(output.shape) != 1:
        raise ShapeError(
            f"backward(): the output has shape {output.shape}; pass grad=, an array of "
            "that shape, or reduce it to one element, with sum() for example")
    if grad is not None:
        seed = cotangent(output, grad, mode)
    elif mode.records:
        seed = ones_like(mode.lift(output.data, None), mode)
    else:
        seed = Ones(output.shape, output.dtype, output.data)
    found = walk_back([(output.edge, seed)], mode, keep=retain_graph or mode.records)
    if not mode.records:
        found = separate_gradients(found, () if grad is None else (seed,))
    for (leaf, _), gradient in found.items():
        assert isinstance(leaf, Leaf)
        while not leaf.replace(old := leaf.grad, _accumulated(old, gradient, mode)):
            pass  # another thread was faster


def _accumulated(old: Any, gradient: Any, mode: Pass) -> Any:
    if old is None:
        return gradient if mode.records else without_repeats(gradient)
    if not mode.records and isinstance(old, GraphArray):
        old = old.data
    return mode.run(ADD, (old, gradient))[0]


def without_repeats(x: Any) -> Any:
    """Copy `x` if some of its elements share memory, as in a broadcast view.

    The gradient of a sum is: who writes to it in place would change all of them.
    """
    strides = getattr(x, "strides", None)
    if strides is None and hasattr(x, "stride"):  # PyTorch's; JAX has none at all
        strides = x.stride()
    if not strides or 0 not in strides or not any(
            n > 1 and not s for n, s in zip(x.shape, strides, strict=True)):
        return x
    return PLAIN.run(COPY, (x,), dtypes=(dtype_of(x),))[0]


def separate_gradients(gradients: dict[Edge, Any],
                       seeds: Sequence[Any]) -> dict[Edge, Any]:
    """Copy gradients that share memory with one another or with `seeds`.

    Their receivers may change them in place.  Views that repeat elements are left to
    `without_repeats`.
    """
    if not seeds and len(gradients) < 2:
        return gradients
    arrays: list[tuple[Edge | None, Array]] = [(None, describe(s)) for s in seeds]
    arrays += [(edge, describe(g)) for edge, g in gradients.items()]
    places = [(byte_range(a), edge) for edge, a in arrays
              if all(n < 2 or s for n, s in zip(a.shape, a.strides, strict=True))]
    places.sort(key=lambda place: (place[0].device, place[0].low))
    apart, last = dict(gradients), None
    for place, edge in places:
        if last is None or not place.overlaps(last):
            last = place
        elif edge is not None:
            dtype = dtype_of(gradients[edge])
            (apart[edge],) = PLAIN.run(COPY, (gradients[edge],), dtypes=(dtype,))
    return apart
