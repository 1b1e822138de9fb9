"""Launches of `Raw` kernels: checks of the caller's grid, block and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..arrays import Array, describe, ordinal
from ..backend import Call, Extents, Launcher, Signature
from ..config import config
from ..errors import OverlapError, ReadOnlyError
from ..scalar.typing.types import Type
from ..specs import Raw
from ..support.records import record
from .allocation import allocate
from .bounds import NOTE, BoundsChecked, bounds_checked_raw, check_inside
from .calls import WEAK, Place, place_of, scalar_type, zero
from .launch_plans import find_launcher
from .launches import LAUNCHES, Launch, bytes_of
from .prepared_call import bind

__all__ = ["BoundLaunch", "Launchable", "check_written", "launch", "prepare"]


@record(frozen=True)
class Launchable:
    """A kernel of threads, compiled for arguments of some types on one device.

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
    bounds_checked: BoundsChecked | None = None


def prepare(spec: Raw, values: Sequence[Any], names: Sequence[str]) -> Launchable:
    """Find or compile the kernel for these arguments.

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
    bounded = bounds_checked_raw(spec) if config.debug else None
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
    """The stride code of an array: its rank, and whether the last stride is 1."""
    dense = array.ndim and (array.strides[-1] == 1 or array.shape[-1] < 2)
    return f"{'c' if dense else 'r'}{array.ndim}"


def check_written(spec: Raw, values: Sequence[Any], names: Sequence[str]) -> None:
    """Check that the arrays which the kernel writes can be written.

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
        # NumPy's strides of an array without elements are 0.
        if 0 not in array.shape and any(
                step == 0 and n > 1
                for n, step in zip(array.shape, array.strides, strict=True)):
            raise OverlapError(
                f"{spec.name} writes to '{name}' of shape {array.shape}, which repeats "
                "elements by a stride of 0; pass a contiguous copy")


def launch(kernel: Launchable, values: Sequence[Any], grid: Extents, block: Extents, *,
           shared: int = 0, stream: int | None = None) -> None:
    """Launch a kernel on arguments of the types it was prepared for.

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
    if kernel.bounds_checked is not None:
        with _bounds_record(kernel, kernel.bounds_checked, values) as notes:
            return _launch(kernel, (*values, notes), grid, block, shared, stream)
    return _launch(kernel, values, grid, block, shared, stream)


@contextmanager
def _bounds_record(kernel: Launchable, bounded: BoundsChecked,
                   values: Sequence[Any]) -> Iterator[Array]:
    """Allocate the record of a bounds-checked launch, and check it afterwards."""
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
    elsewhere = not {a.stream for a in arrays} <= {None, handle}
    if elsewhere:
        place.backend.synchronize()  # somebody makes one on another stream
    trace = LAUNCHES.get()
    if trace is not None:
        trace.append(_launched(kernel, arrays, grid, block))
    kernel.launcher(_call(kernel, values, grid, block, shared, handle))
    if elsewhere and stream is None:
        place.backend.synchronize()  # and nobody there knows of this launch


def _launched(kernel: Launchable, arrays: Sequence[Array], grid: Extents,
              block: Extents) -> Launch:
    return Launch("Raw", kernel.spec.name, grid, kernel.place.backend.name,
                  bytes_of(arrays), grid, block)


def _call(kernel: Launchable, values: Sequence[Any], grid: Extents, block: Extents,
          shared: int, stream: int) -> Call:
    arrays = [v for v in values if type(v) is Array]
    return Call(
        (), tuple([a.pointer for a in arrays]), tuple([a.strides for a in arrays]),
        tuple([v.item() if isinstance(v, np.generic) else v for v in values
               if type(v) is not Array]),
        ordinal(kernel.place.device), stream, tuple([a.shape for a in arrays]), grid,
        block, shared)


class BoundLaunch:
    """A launch on arguments that differ in addresses and numbers only.

    Parameters
    ----------
    kernel, values, grid, block, stream
        As of `launch`: the launch that came first.
    current
        Whether arrays belong to the stream that their library works on when they are
        launched on; else each belongs to the one that it names in `values`.
    """

    def __init__(self, kernel: Launchable, values: Sequence[Any], grid: Extents,
                 block: Extents, stream: int | None, current: bool) -> None:
        arrays = [v for v in values if type(v) is Array]
        place = self._place = kernel.place
        self._start = bind(kernel.launcher, _call(kernel, values, grid, block, 0, 0))
        self._launch, self._stream = _launched(kernel, arrays, grid, block), stream
        self._current = place.library.streams(place.device)
        #: The streams of arrays; None: the current one.
        self._streams: set[int] | None = {
            a.stream for a in arrays if a.stream is not None}
        if self._streams and current:
            self._streams = None

    def __call__(self, pointers: Sequence[int], numbers: tuple[Any, ...]) -> None:
        """Launch."""
        trace = LAUNCHES.get()
        if trace is not None:
            trace.append(self._launch)
        stream = self._stream
        if stream is None:
            stream = self._current()
        if self._is_elsewhere(stream):
            self._place.backend.synchronize()
            self._start(pointers, numbers, stream)
            if self._stream is None:
                self._place.backend.synchronize()
        else:
            self._start(pointers, numbers, stream)

    def _is_elsewhere(self, stream: int) -> bool:
        """Whether an array is made, or used, on another stream."""
        if self._streams is None:
            return self._stream is not None and self._current() != stream
        return not self._streams <= {stream}
