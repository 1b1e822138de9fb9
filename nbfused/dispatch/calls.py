"""Calls of a spec on arrays: describe, plan, check, allocate, launch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, DeviceArray, check_dtype, describe
from ..arrays.libraries.numpy import NUMPY
from ..config import config
from ..errors import DeviceError, KernelTypeError, RangeError
from ..registry.backends import registry
from ..scalar.ir.nodes import Block, Function, Let, Literal
from ..scalar.typing.python_numbers import plain_number
from ..scalar.typing.types import Weak
from ..specs import Map, Spec
from ..support.forks import free_in_child
from .bounds import NOTE, BoundsChecked, bounds_checked_map, check_inside
from .callers import Caller, make_caller
from .launch_plans import Arguments, Request, arguments, make_plan
from .outputs import check_output, check_overlap
from .prepared_call import OverlapTest, Place, PreparedCall, overlap_test

__all__ = ["COPY", "WEAK", "ZERO", "Dtypes", "Place", "check_call", "describe_outputs",
           "find_prepared", "place_of", "prepare_call", "request_of", "run",
           "run_cached", "scalar_type", "validate_and_run", "zero"]

#: Stores each element of its input.
COPY = Map(Function("copy", ("x",), Block((Let(("y",), "id", ("x",)),), ("y",))),
           ("element",))
#: Stores zero: false, which casts to zero of every dtype.
ZERO = Map(Function("zero", (), Block((), (Literal("bool", "False"),))), ())

Dtypes = tuple[np.dtype | None, ...]

_LIMIT = 1024  # prepared calls of one spec
_LOCK = free_in_child(threading.Lock())
WEAK: dict[type, Weak] = {kind: Weak(kind.__name__)
                          for kind in (bool, int, float, complex)}


def run(spec: Spec, inputs: Sequence[Any], *, outs: Sequence[Any] | None = None,
        casting: str = "same_kind", checked: bool = False) -> None:
    """Run `spec` on arrays, described or not, and store the results in `outs`.

    `checked` says that `outs` need no checks.
    """
    if run_cached(spec, inputs, outs, None, casting, checked) is None:
        validate_and_run(spec, inputs, outs, casting=casting, checked=checked)


def run_cached(spec: Spec, inputs: Sequence[Any], outs: Sequence[Any] | None,
               dtypes: Dtypes | None, casting: str = "same_kind",
               checked: bool = False) -> Sequence[Any] | None:
    """Call `spec` through its cached caller; None if there is none for these types.

    Returns
    -------
    sequence or None
        The results that were made, None in place of those that were given; None if it
        was not called so before, or an output may overlap an input.
    """
    callers = spec.__dict__.get("_callers")
    if callers is None:
        return None
    types = (*map(type, inputs), None, *map(type, outs or ()))
    caller: Caller | None = callers.get(types)
    if caller is None:
        return None
    made: Sequence[Any] | None = caller.call(inputs, outs, dtypes, casting, checked,
                                             None, True)
    return made


def find_prepared(spec: Spec, inputs: Sequence[Any], outs: Sequence[Any] | None,
                  dtypes: Dtypes | None, like: Any = None, *,
                  casting: str = "same_kind",
                  checked: bool = False) -> PreparedCall | None:
    """Find the call that was prepared when `spec` was run on such arrays, or None.

    Parameters are those of `execute`, and of `run`.
    """
    callers = spec.__dict__.get("_callers", {})
    caller: Caller | None = callers.get((*map(type, inputs), None,
                                         *map(type, outs or ())))
    if caller is None:
        return None
    place = None if like is None else describe(like, "like").place
    read = caller.call(inputs, outs, dtypes, casting, checked, place, False)
    return None if read is None else caller.prepared.get(read[0])


def validate_and_run(spec: Spec, inputs: Sequence[Any],
                     outs: Sequence[Any] | None = None, *,
                     dtypes: Dtypes | None = None, names: Sequence[str] | None = None,
                     casting: str = "same_kind", like: Array | None = None,
                     checked: bool = False) -> tuple[Sequence[Any], Place]:
    """Describe and check all arguments of `spec`, then run it.

    Parameters are those of `execute`; `checked` says that `outs` need no checks.

    Returns
    -------
    sequence
        The outputs, as `Library.empty` made them (not yet finished); None for those
        that were given.
    Place
        Where it ran.
    """
    bounded = bounds_checked_map(spec) if config.debug else None
    wanted = arguments(spec)
    kinds, names = wanted.kinds, tuple(names or wanted.names)
    if bounded is not None:
        return _run_checked(bounded, inputs, outs, dtypes, names, casting=casting,
                            like=like, checked=checked)
    if len(kinds) != len(inputs):
        raise KernelTypeError(f"{spec.name} takes {len(kinds)} inputs "
                              f"{wanted.names}, got {len(inputs)}")
    inputs = [plain_number(x) if k == "scalar" else x
              for k, x in zip(kinds, inputs, strict=True)]
    for kind, name, x in zip(kinds, names, inputs, strict=True):
        if kind == "scalar":
            scalar_type(name, x)
    given = [x if k == "scalar" or type(x) is Array else describe(x, n)
             for k, n, x in zip(kinds, names, inputs, strict=True)]
    arrays = [x for kind, x in zip(kinds, given, strict=True) if kind != "scalar"]
    places = None if outs is None else describe_outputs(outs)
    place = place_of(arrays, places, like, kinds, names)
    if places is not None and not checked:
        _check(spec, kinds, arrays, places, place, names)
    request = request_of(spec, given, places, place, dtypes, names, casting)
    seen = [(inputs, outs), (given, places)]
    for xs, ys in seen:  # as they are or, if that cannot be read, as described
        caller = _caller(spec, wanted, xs, ys)
        read = None if caller is None else caller.call(
            xs, ys, dtypes, casting, checked, like and like.place, False)
        if caller is None or read is None:
            continue
        key, pointers, scalars = read
        prepared = caller.prepared.get(key)
        if prepared is None:
            prepared = _prepare(
                request, kinds, arrays, places, (pointers, scalars), place, checked,
                _streams(xs, arrays, kinds) + _streams(ys or (), places or ()))
            made = prepared.begin(pointers, scalars)
            _store(caller.prepared, key, prepared)  # once it is bound
            return made, place
        return prepared.start(pointers, scalars), place
    raise AssertionError(f"{spec.name}: what was described cannot be read")


def check_call(spec: Spec, given: Sequence[Any], outs: Sequence[Array]) -> None:
    """Check a call on arrays that are described, and numbers, as a call of it does."""
    wanted = arguments(spec)
    arrays = [x for x in given if type(x) is Array]
    place = place_of(arrays, outs, None, wanted.kinds, wanted.names)
    _check(spec, wanted.kinds, arrays, outs, place, wanted.names)
    make_plan(request_of(spec, given, outs, place, None, wanted.names, "same_kind"))


def prepare_call(spec: Spec, given: Sequence[Any], outs: Sequence[Array],
                 ) -> tuple[PreparedCall, tuple[int, ...], tuple[Any, ...]]:
    """Prepare a call that was checked: it, its addresses and its numbers."""
    wanted = arguments(spec)
    arrays = [x for x in given if type(x) is Array]
    scalars = tuple([x for x in given if type(x) is not Array])
    place = place_of(arrays, outs, None, wanted.kinds, wanted.names)
    request = request_of(spec, given, outs, place, None, wanted.names, "same_kind")
    pointers = tuple([x.pointer for x in (*arrays, *outs)])
    streams = _streams((*arrays, *outs), (*arrays, *outs))
    return _prepare(request, wanted.kinds, arrays, outs, (pointers, scalars), place,
                    False, streams), pointers, scalars


def request_of(spec: Spec, given: Sequence[Any], outs: Sequence[Array | None] | None,
               place: Place, dtypes: Dtypes | None, names: tuple[str, ...],
               casting: str) -> Request:
    """The key of the plan for arrays that are described, and numbers."""
    arrays = [x for x in given if type(x) is Array]
    return Request(
        spec, place.backend, place.device,
        tuple((array.shape, array.strides) for array in arrays),
        tuple([x.dtype if type(x) is Array else WEAK.get(t := scalar_type(n, x), t)
               for n, x in zip(names, given, strict=True)]),
        None if outs is None else tuple(
            [None if out is None else (out.shape, out.strides, out.dtype)
             for out in outs]),
        dtypes, names, casting, place.library.writable)


def _caller(spec: Spec, wanted: Arguments, inputs: Sequence[Any],
            outs: Sequence[Any] | None) -> Caller | None:
    # Of all equal specs, but for those made after so many others that `wanted` is new.
    callers = spec.__dict__.setdefault("_callers", wanted.callers)
    types = (*map(type, inputs), None, *map(type, outs or ()))
    if types not in callers:
        callers[types] = make_caller(
            wanted.kinds, tuple(map(type, inputs)),
            None if outs is None else tuple(map(type, outs)))
    found: Caller | None = callers[types]
    return found


def _streams(given: Sequence[Any], arrays: Sequence[Array | None],
             kinds: Sequence[str] = ()) -> tuple[int, ...]:
    """Streams of other libraries on which arrays may still be in use.

    What CuPy and PyTorch give is ready where they work now, our own arrays' library
    always works on the default stream.
    """
    given = [x for x, kind in zip(given, kinds, strict=True) if kind != "scalar"] \
        if kinds else given
    return tuple({array.stream for x, array in zip(given, arrays, strict=True)
                  if array is not None and array.stream is not None and (
                      type(x) is Array or (type(x) is DeviceArray and array.stream))})


def _prepare(request: Request, kinds: Sequence[str], arrays: Sequence[Array],
             outs: Sequence[Array | None] | None,
             values: tuple[Sequence[int], tuple[Any, ...]], place: Place,
             checked: bool, streams: tuple[int, ...]) -> PreparedCall:
    spec = request.spec
    pairs = [] if checked or outs is None else _pairs(spec, kinds, arrays, outs)
    return PreparedCall(spec, make_plan(request), place, arrays, outs, *values, streams,
                        pairs, _clearing)


def _clearing(out: Array) -> PreparedCall:
    return prepare_call(ZERO, (), (out,))[0]


def _run_checked(bounded: BoundsChecked, inputs: Sequence[Any],
                 outs: Sequence[Any] | None,
                 dtypes: Dtypes | None, names: Sequence[str],
                 **options: Any) -> tuple[list[Any], Place]:
    """Run a Map with bounds checks."""
    spec: Map = bounded.spec
    params = arguments(spec).names
    shapes = dict(zip((p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                       if k == "scatter"), spec.scatter_shapes, strict=True))
    shapes |= {p: describe(x, n).shape for p, n, k, x in zip(
        params, names, arguments(spec).kinds, inputs, strict=False) if k == "raw"}
    extents = [shapes[array][axis] for array, axis in bounded.extents]
    count = len(spec.function.results) + len(spec.scatter_shapes) - 1
    made, place = validate_and_run(
        spec, (*inputs, *extents), None if outs is None else (*outs, None),
        dtypes=(*(dtypes or (None,) * count), NOTE),
        names=(*names, *params[len(names):]), **options)
    *natives, notes = made
    check_inside(bounded, place.library.finish(notes),
                 dict(zip(params, names, strict=False)), shapes)
    return natives, place


def scalar_type(name: str, x: Any) -> Any:
    """The type of a call-time number: a Python type (weak) or a dtype."""
    kind = type(x)
    if kind is int:
        if not -2**63 <= x < 2**63:
            raise RangeError(f"'{name}' is {x}, which does not fit 64 bits; pass "
                                "numpy.uint64(...) or a float")
    elif isinstance(x, np.generic):
        return check_dtype(x.dtype, name)
    elif kind not in WEAK:
        raise KernelTypeError(f"'{name}' must be a number, got a {kind.__name__}; pass "
                              f"{name}.item() or float({name})")
    return kind


def place_of(arrays: Sequence[Array], outs: Sequence[Array | None] | None = None,
             like: Array | None = None, kinds: Sequence[str] = (),
             names: Sequence[str] = ()) -> Place:
    """The library, device and backend of a call: its arrays', or `outs`, `like`.

    Raises
    ------
    KernelTypeError
        Arrays of several libraries.
    DeviceError
        Arrays on several devices, or on one that no enabled backend owns.
    """
    if arrays:
        first = arrays[0]
        library, device = first.library, first.device
        if len(arrays) > 1:
            for other in arrays:
                if other.library is not library or other.device != device:
                    raise _mixture_error(arrays, kinds, names)
    else:
        source = like
        for out in outs or ():
            source = source if out is None else out
        library, device = (NUMPY, "cpu") if source is None else (
            source.library, source.device)
    return Place(library, device, registry.backend_for(device, _label(kinds, names)))


def _label(kinds: Sequence[str], names: Sequence[str]) -> str:
    """The name of the array that decides the device, for messages."""
    arrays = (f"'{n}'" for k, n in zip(kinds, names, strict=True) if k != "scalar")
    return next(arrays, "the result")


def _mixture_error(arrays: Sequence[Array], kinds: Sequence[str],
                   names: Sequence[str]) -> Exception:
    labels = [n for k, n in zip(kinds, names, strict=True) if k != "scalar"]
    libraries = {a.library.name for a in arrays}
    if len(libraries) > 1:
        listed = ", ".join(f"'{n}' is of {a.library.name}"
                           for n, a in zip(labels, arrays, strict=True))
        return KernelTypeError(f"{listed}; one call takes arrays of one library, "
                               "convert the others (from_dlpack does not copy)")
    listed = ", ".join(f"'{n}' is on {a.device}"
                       for n, a in zip(labels, arrays, strict=True))
    return DeviceError(f"{listed}; one call takes arrays on one device, move the "
                       "others with nbfused.array(x, device=...)")


def _store(calls: dict[tuple[Any, ...], PreparedCall], key: tuple[Any, ...],
           call: PreparedCall) -> PreparedCall:
    """Store a prepared call, evicting the oldest ones."""
    with _LOCK:
        while len(calls) >= _LIMIT:
            del calls[next(iter(calls))]
        calls[key] = call
    return call


def output_name(number: int, count: int) -> str:
    """The name of a given output in messages."""
    return "out" if count == 1 else f"out[{number}]"


def describe_outputs(outs: Sequence[Any | None]) -> list[Array | None]:
    """Describe the outputs that the caller gave."""
    found: list[Array | None] = []
    for k, out in enumerate(outs):
        name = output_name(k, len(outs))
        if isinstance(out, np.generic):
            raise KernelTypeError(
                f"{name} is a NumPy scalar, which cannot be written to; pass an array "
                f"such as numpy.empty((), '{out.dtype}')")
        found.append(out if out is None or type(out) is Array else describe(out, name))
    return found


def _check(spec: Spec, kinds: Sequence[str], arrays: Sequence[Array],
           outs: Sequence[Array | None], place: Place, names: Sequence[str]) -> None:
    """Check outputs that the caller gave, before anything is written."""
    late = _written_last(spec, len(outs))
    local = _read_in_place(spec, kinds)
    given = [(output_name(i, len(outs)), out, i in late)
             for i, out in enumerate(outs) if out is not None]
    for name, out, _ in given:
        check_output(name, out, place.library, place.device)
    labels = [name for kind, name in zip(kinds, names, strict=True) if kind != "scalar"]
    check_overlap(given, list(zip(labels, arrays, local, strict=True)))


def _written_last(spec: Spec, count: int) -> range:
    """Numbers of the outputs that are written after all inputs at the same index."""
    return range(count - len(spec.scatter_shapes))


def _read_in_place(spec: Spec, kinds: Sequence[str]) -> list[bool]:
    """Tell for each array whether a result may be stored in it."""
    return [spec.reads_in_place(k) for k, kind in enumerate(kinds) if kind != "scalar"]


def _pairs(spec: Spec, kinds: Sequence[str], arrays: Sequence[Array],
           outs: Sequence[Array | None]) -> list[OverlapTest]:
    """Pairs of an output and an array that it must not overlap."""
    late, first = _written_last(spec, len(outs)), len(arrays)
    local = _read_in_place(spec, kinds)
    found = []
    for k, out in enumerate(outs):
        if out is None:
            continue
        found += [overlap_test(first + k, out, i, array, k in late and local[i])
                  for i, array in enumerate(arrays)]
        found += [overlap_test(first + k, out, first + j, other, False)
                  for j, other in enumerate(outs[:k]) if other is not None]
    return [p for p in found if p is not None]


def zero(out: Array) -> None:
    """Fill an array with zeros."""
    run(ZERO, (), outs=(out,), checked=True)
