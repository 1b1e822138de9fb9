"""One call of a spec: describe, plan, check, allocate, launch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, Library, check_dtype, describe
from ..arrays.host import NUMPY
from ..backend import Backend, Call
from ..config import config
from ..errors import DeviceError, KernelTypeError, RangeError
from ..registry import registry
from ..scalar.ir import Block, Function, Let, Literal
from ..scalar.types import Type, Weak
from ..specs import Map, Spec
from .allocation import allocate
from .bounds import NOTE, Bounded, bounded_map, check_inside
from .launches import LAUNCHES, Launch, bytes_of
from .outputs import check_output, check_overlap
from .plans import Plan, Request, arguments, make_plan

__all__ = ["COPY", "WEAK", "Place", "output_name", "place_of", "run", "scalar_type",
           "zero"]

#: Stores each element of its input.
COPY = Map(Function("copy", ("x",), Block((Let(("y",), "id", ("x",)),), ("y",))),
           ("element",))
#: Stores zero: false, which casts to zero of every dtype.
ZERO = Map(Function("zero", (), Block((), (Literal("bool", "False"),))), ())

Dtypes = tuple[np.dtype | None, ...]

_LIMIT = 1024  # plans of one spec
_LOCK = threading.Lock()
WEAK: dict[type, Weak] = {kind: Weak(kind.__name__)
                          for kind in (bool, int, float, complex)}


@dataclass(slots=True)
class Place:
    """Where a call runs and who makes its results."""

    library: Library
    device: str
    backend: Backend


def run(spec: Spec, inputs: Sequence[Any], *,
        outs: Sequence[Array | None] | None = None, dtypes: Dtypes | None = None,
        names: Sequence[str] | None = None, casting: str = "same_kind",
        like: Array | None = None, checked: bool = False) -> tuple[list[Any], Place]:
    """Run `spec` on arrays, described or not, and numbers.

    Parameters are those of `execute`; `checked` says that `outs` need no checks.

    Returns
    -------
    list
        The outputs, as `Library.empty` made them (not yet finished); None for those
        that were given.
    Place
        Where it ran.
    """
    wanted = arguments(spec)
    if names is None:
        names = wanted.names
    bounded = bounded_map(spec) if config.debug and isinstance(spec, Map) else None
    if bounded is not None:
        return _bounded(bounded, inputs, outs, dtypes, names, casting=casting,
                        like=like, checked=checked)
    if len(wanted.kinds) != len(inputs):
        raise KernelTypeError(f"{spec.name} takes {len(wanted.kinds)} inputs "
                              f"{wanted.names}, got {len(inputs)}")
    arrays: list[Array] = []
    scalars: list[Any] = []
    key: list[Any] = []
    for kind, name, x in zip(wanted.kinds, names, inputs, strict=True):
        if kind == "scalar":
            # NumPy's bool has no __index__, which packing asks for.
            scalars.append(bool(x) if type(x) is np.bool_ else x)
            key.append(scalar_type(name, x))
        else:
            array = x if type(x) is Array else describe(x, name)
            arrays.append(array)
            key += (array.shape, array.strides, array.dtype)
    place = place_of(arrays, outs, like, wanted.kinds, names)
    given = None if outs is None else tuple(
        [None if out is None else (out.shape, out.strides, out.dtype) for out in outs])
    whole = (place.backend, place.device, place.library.writable, *key, given, dtypes,
             casting)
    plan = wanted.plans.get(whole)
    if plan is None:
        plan = _remember(wanted.plans, whole, make_plan(Request(
            spec, place.backend, place.device,
            tuple((array.shape, array.strides) for array in arrays),
            _types(wanted.kinds, key), given, dtypes, tuple(names), casting,
            place.library.writable)))
    if outs is not None and not checked:
        _check(spec, wanted.kinds, arrays, outs, place, names)
    natives, results = _outputs(plan, outs, place)
    for number in plan.zeros:
        if natives[number] is not None or not isinstance(spec, Map):
            zero(results[number])
    _start(plan, spec, arrays, results, tuple(scalars), place)
    return natives, place


def _bounded(bounded: Bounded, inputs: Sequence[Any], outs: Sequence[Any] | None,
             dtypes: Dtypes | None, names: Sequence[str],
             **options: Any) -> tuple[list[Any], Place]:
    """`run` of a Map that looks where it indexes."""
    spec: Map = bounded.spec
    params = arguments(spec).names
    shapes = dict(zip((p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                       if k == "scatter"), spec.scatter_shapes, strict=True))
    shapes |= {p: describe(x, n).shape for p, n, k, x in zip(
        params, names, arguments(spec).kinds, inputs, strict=False) if k == "raw"}
    extents = [shapes[array][axis] for array, axis in bounded.extents]
    count = len(spec.function.results) + len(spec.scatter_shapes) - 1
    natives, place = run(
        spec, (*inputs, *extents), outs=None if outs is None else (*outs, None),
        dtypes=(*(dtypes or (None,) * count), NOTE),
        names=(*names, *params[len(names):]), **options)
    check_inside(bounded, place.library.finish(natives.pop()),
                 dict(zip(params, names, strict=False)), shapes)
    return natives, place


def scalar_type(name: str, x: Any) -> Any:
    """The key of a call-time number: a Python type (weak) or a dtype."""
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
    """Where a call on `arrays` runs; without any, where `outs` or `like` are.

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
                    raise _mixed(arrays, kinds, names)
    else:
        source = like
        for out in outs or ():
            source = source if out is None else out
        library, device = (NUMPY, "cpu") if source is None else (
            source.library, source.device)
    return Place(library, device, registry.backend_for(device, _label(kinds, names)))


def _label(kinds: Sequence[str], names: Sequence[str]) -> str:
    """How a message calls the array that decides the device."""
    for kind, name in zip(kinds, names, strict=True):
        if kind != "scalar":
            return f"'{name}'"
    return "the result"


def _mixed(arrays: Sequence[Array], kinds: Sequence[str],
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


def _remember(plans: dict[tuple[Any, ...], Plan], key: tuple[Any, ...],
              plan: Plan) -> Plan:
    """Keep a plan; the oldest ones make room."""
    with _LOCK:
        while len(plans) >= _LIMIT:
            del plans[next(iter(plans))]
        plans[key] = plan
    return plan


def _types(kinds: Sequence[str], parts: list[Any]) -> tuple[Type, ...]:
    """The type of every input, from the key."""
    types: list[Type] = []
    rest = iter(parts)
    for kind in kinds:
        part = next(rest)
        if kind != "scalar":
            next(rest)
            part = next(rest)
        types.append(WEAK[part] if isinstance(part, type) else part)
    return tuple(types)


def output_name(number: int, count: int) -> str:
    """How a message calls an output that the caller gave."""
    return "out" if count == 1 else f"out[{number}]"


def _check(spec: Spec, kinds: Sequence[str], arrays: list[Array],
           outs: Sequence[Array | None], place: Place, names: Sequence[str]) -> None:
    """Check outputs that the caller gave, before anything is written."""
    pointwise = isinstance(spec, Map)
    results = len(outs) - len(spec.scatter_shapes) if isinstance(spec, Map) else 0
    given = [(output_name(i, len(outs)), out, i < results)
             for i, out in enumerate(outs) if out is not None]
    for name, out, _ in given:
        check_output(name, out, place.library, place.device)
    labels = [(name, pointwise and kind == "element")
              for kind, name in zip(kinds, names, strict=True) if kind != "scalar"]
    check_overlap(given, [(name, array, exact) for (name, exact), array
                          in zip(labels, arrays, strict=True)])


def _outputs(plan: Plan, outs: Sequence[Array | None] | None, place: Place,
             ) -> tuple[list[Any], list[Array]]:
    natives: list[Any] = []
    arrays: list[Array] = []
    for number, result in enumerate(plan.results):
        out = None if outs is None else outs[number]
        native = None
        if out is None:
            native = allocate(place.library, result.shape, result.dtype, place.device)
            if result.strides is not None:
                native = place.library.view(native, result.shape, result.strides, 0)
            out = describe(native, "out")
        natives.append(native)
        arrays.append(out)
    return natives, arrays


def zero(out: Array) -> None:
    """Fill an array with zeros."""
    run(ZERO, (), outs=(out,), checked=True)


def _start(plan: Plan, spec: Spec, arrays: list[Array], results: list[Array],
           scalars: tuple[Any, ...], place: Place) -> None:
    if plan.launcher is None:
        return
    stream = place.library.stream(place.device)
    pointers = []
    for array in arrays:
        pointers.append(array.pointer)
        if array.stream is not None and array.stream != stream:
            place.backend.synchronize()  # somebody makes it on another stream
    for array in results:
        pointers.append(array.pointer)
    if plan.moves is not None:
        pointers = [p + move for p, move in zip(pointers, plan.moves, strict=True)]
    trace = LAUNCHES.get()
    if trace is not None:
        trace.append(Launch(type(spec).__name__, spec.name, plan.shape,
                            place.backend.name, bytes_of([*arrays, *results])))
    plan.launcher(Call(plan.shape, tuple(pointers), plan.strides, scalars,
                       plan.ordinal, stream, plan.extents))
