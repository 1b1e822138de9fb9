"""One launch of a `Raw`: the caller's grid, block and arrays, checked and handed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..arrays import Array, describe, ordinal
from ..backend import Call, Extents, Launcher, Signature
from ..config import config
from ..errors import OverlapError, ReadOnlyError
from ..records import record
from ..scalar.types import Type
from ..specs import Raw
from .allocation import allocate
from .bounds import NOTE, Bounded, bounded_raw, check_inside
from .calls import WEAK, Place, place_of, scalar_type, zero
from .launches import LAUNCHES, Launch, bytes_of
from .plans import find_launcher

__all__ = ["Launchable", "check_written", "launch", "prepare"]


@record(frozen=True)
class Launchable:
    """A kernel for arguments of some types on one device.

    Attributes
    ----------
    place
        Where it runs.
    signature
        What it was compiled for.
    names
        What messages call the arguments.
    bounded
        The kernel that runs where indices are looked at.
    """

    spec: Raw
    place: Place
    signature: Signature
    launcher: Launcher
    names: tuple[str, ...]
    bounded: Bounded | None = None


def prepare(spec: Raw, values: Sequence[Any], names: Sequence[str]) -> Launchable:
    """The kernel for these arguments, compiled or found.

    Parameters
    ----------
    spec
        The kernel.
    values
        For each of its parameters an `Array` or a number.
    names
        What messages call them.

    Raises
    ------
    KernelTypeError
        Arrays of several libraries, or operations that do not take these types.
    DeviceError
        Several devices, or one that no enabled backend owns.
    CompileError
        A compiler refuses the generated text.
    """
    arrays = [v for v in values if type(v) is Array]
    place = place_of(arrays, kinds=spec.kinds, names=names)
    types = tuple(_type(name, v) for name, v in zip(names, values, strict=True))
    signature = Signature(types, (), (), tuple(map(_code, arrays)))
    bounded = bounded_raw(spec) if config.debug else None
    if bounded is None:
        launcher = find_launcher(place.backend, spec, signature)
    else:
        launcher = find_launcher(place.backend, bounded.spec, Signature(
            (*types, NOTE), (), (), (*signature.inner, "c2")))
    return Launchable(spec, place, signature, launcher, tuple(names), bounded)


def _type(name: str, value: Any) -> Type:
    if type(value) is Array:
        return value.dtype
    found = scalar_type(name, value)
    return WEAK.get(found, found)


def _code(array: Array) -> str:
    """Its rank, and whether its last stride is 1."""
    dense = array.ndim and (array.strides[-1] == 1 or array.shape[-1] < 2)
    return f"{'c' if dense else 'r'}{array.ndim}"


def check_written(spec: Raw, values: Sequence[Any], names: Sequence[str]) -> None:
    """Check the arrays that the kernel changes.

    Raises
    ------
    ReadOnlyError
        It must not be written to.
    OverlapError
        It repeats elements by a stride of 0.
    """
    for p, name, array in zip(spec.function.params, names, values, strict=True):
        if p not in spec.written or type(array) is not Array:
            continue
        if not array.library.writable:
            raise ReadOnlyError(
                f"{spec.name} writes to '{name}', an array of {array.library.name}, "
                "whose arrays are immutable; pass an array of nbfused.empty")
        if array.readonly:
            raise ReadOnlyError(f"{spec.name} writes to '{name}', which is read-only; "
                                f"pass a writable array, such as {name}.copy()")
        if any(step == 0 and n > 1
               for n, step in zip(array.shape, array.strides, strict=True)):
            raise OverlapError(
                f"{spec.name} writes to '{name}' of shape {array.shape}, which repeats "
                "elements by a stride of 0; pass a contiguous copy")


def launch(kernel: Launchable, values: Sequence[Any], grid: Extents, block: Extents, *,
           shared: int = 0, stream: int | None = None) -> None:
    """Start a kernel on arguments like those that it was prepared for.

    Parameters
    ----------
    grid, block
        Numbers of blocks, and of threads in each, within the limits.
    shared
        Bytes of dynamic shared memory.
    stream
        A handle; None for the one that the arrays' library works on.

    Raises
    ------
    RangeError
        Under ``NBFUSED_DEBUG=1``: an index lies outside its array.
    """
    if kernel.bounded is not None:
        with _looking(kernel, kernel.bounded, values) as notes:
            return _launch(kernel, (*values, notes), grid, block, shared, stream)
    return _launch(kernel, values, grid, block, shared, stream)


@contextmanager
def _looking(kernel: Launchable, bounded: Bounded,
             values: Sequence[Any]) -> Iterator[Array]:
    """An array for the notes of a launch, read after it; all streams wait for it."""
    place, params = kernel.place, kernel.spec.function.params
    native = allocate(place.library, (len(bounded.sites), 2), NOTE, place.device)
    notes = describe(native, "out")
    zero(notes)
    place.backend.synchronize()
    yield notes
    place.backend.synchronize()
    check_inside(bounded, place.library.finish(native),
                 dict(zip(params, kernel.names, strict=False)),
                 {p: v.shape for p, v in zip(params, values, strict=False)
                  if type(v) is Array})


def _launch(kernel: Launchable, values: Sequence[Any], grid: Extents, block: Extents,
            shared: int, stream: int | None) -> None:
    arrays = [v for v in values if type(v) is Array]
    place = kernel.place
    handle = place.library.stream(place.device) if stream is None else stream
    elsewhere = any(a.stream not in (None, handle) for a in arrays)
    if elsewhere:
        place.backend.synchronize()  # somebody makes one on another stream
    trace = LAUNCHES.get()
    if trace is not None:
        trace.append(Launch("Raw", kernel.spec.name, grid, place.backend.name,
                            bytes_of(arrays), grid, block))
    kernel.launcher(Call(
        (), tuple(a.pointer for a in arrays), tuple(a.strides for a in arrays),
        tuple(_number(v) for v in values if type(v) is not Array),
        ordinal(place.device), handle, tuple(a.shape for a in arrays), grid, block,
        shared))
    if elsewhere and stream is None:
        place.backend.synchronize()  # and nobody there knows of this launch


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
