"""Launches like those before: what was decided about their arguments is known.

A launch on arrays and numbers of types, extents and layouts that came before takes the
kernel from then, and no checks: only addresses, numbers and the stream are new.  They
are read by a function that is generated for the types of the arguments.
Measured: benchmarks/notes/cpu.md#launches-of-threads.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Library, Reading, reading_of
from ...arrays.detect import exact_library
from ...autograd.versions import note_write
from ...config import config
from ...dispatch.callers import ArgumentReader, read_arguments
from ...dispatch.raw import BoundLaunch, Launchable
from .arguments import FlatArguments
from .launching import Options

__all__ = ["KnownLaunches"]

#: Launches that a kernel remembers for arguments of some types.
_MOST = 1024
_FROZEN = Reading("None", ("repr({x})",))
#: The types of numbers that can be frozen.
_PLAIN = (bool, int, float, complex)

#: By key and options: the launch, and the positions of the arguments that it writes.
_Launches = dict[Hashable, tuple[BoundLaunch, tuple[int, ...]]]


class _Reader(NamedTuple):
    """A function that reads arguments of some types, and the launches on such ones.

    Attributes
    ----------
    read
        None of types that are looked at each time.
    own
        Whether arrays are read by their library's text, so that they are used on the
        stream which it works on.
    """

    read: ArgumentReader | None
    own: bool
    launches: _Launches


class KnownLaunches:
    """The launches that a kernel remembers.

    Parameters
    ----------
    frozen
        Parameters whose numbers are part of the kernel.
    converted
        Parameters whose numbers an annotation converts.
    """

    def __init__(self, frozen: Collection[str], converted: Collection[str]) -> None:
        self._frozen, self._possible = frozen, not converted
        self._readers: dict[tuple[type, ...], _Reader] = {}

    def start(self, arguments: Mapping[str, Any], options: Options) -> bool:
        """Launch on arguments like some before; False if there were none."""
        values = tuple(arguments.values())
        reader = self._readers.get(tuple(map(type, values)))
        if reader is None or reader.read is None or options.shared or \
                options.places is not None or config.debug:
            return False
        seen = reader.read(values)
        if seen is None:
            return False
        key, pointers, numbers = seen
        known = reader.launches.get((options, key))
        if known is None:
            return False
        launch, written = known
        try:
            launch(pointers, numbers + options.dim)
        finally:
            note_write([values[k] for k in written])
        return True

    def remember(self, arguments: Mapping[str, Any], options: Options,
                 flat: FlatArguments, kernel: Launchable) -> None:
        """Remember a launch on arguments that were taken apart."""
        if not self._possible or config.debug or options.shared or options.places:
            return
        values = tuple(arguments.values())
        types = tuple(map(type, values))
        reader = self._readers.get(types)
        if reader is None:
            reader = self._readers[types] = self._reader(arguments)
        seen = None if reader.read is None else reader.read(values)
        given = [k for k, name in enumerate(arguments) if name not in self._frozen]
        if seen is None or len(given) != len(flat.values):
            return
        if any(_is_struct(values[k]) for k in given):
            return
        if len(reader.launches) >= _MOST:
            reader.launches.clear()
        reader.launches[options, seen[0]] = BoundLaunch(
            kernel, (*flat.values, *options.dim), options.grid, options.block,
            options.stream, reader.own), tuple(
                k for k, p in zip(given, kernel.spec.function.params, strict=False)
                if p in kernel.spec.written)

    def _reader(self, arguments: Mapping[str, Any]) -> _Reader:
        """Generate what reads arguments of these types."""
        found = [_reading(type(x), name in self._frozen)
                 for name, x in arguments.items()]
        readings = [one for one in found if one is not None]
        if len(readings) < len(found):
            return _Reader(None, False, {})
        texts, kinds, own = zip(*readings, strict=True) if readings else ((), (), ())
        return _Reader(read_arguments(texts, kinds), all(own), {})


def _reading(kind: type, frozen: bool) -> tuple[Reading, str, bool] | None:
    """The text that reads an argument, what it is, and whether the library has it."""
    if kind in _PLAIN:
        number = _FROZEN if frozen else reading_of(kind, number=True)
        return number and (number, "key" if frozen else "scalar", True)
    if issubclass(kind, np.generic):
        return None if frozen or issubclass(kind, np.void) else (
            Reading("{x}.item()"), "scalar", True)
    library = None if frozen else exact_library(kind)
    if library is None:
        return None
    own = reading_of(kind, number=False)
    return (_described(library), "array", False) if own is None else (
        own, "array", True)


def _described(library: Library) -> Reading:
    """The text for arrays that only `describe` can read."""
    describe, tracks = f"describe_{library.name}", f"tracks_{library.name}"
    return Reading("{x}_array.pointer", tuple([f"{{x}}_array.{part}" for part in (
        "dtype", "shape", "strides", "device", "stream", "readonly")]),
        f"{{x}}_array = {describe}({{x}}, '')", f"{tracks}({{x}})",
        names=((describe, library.describe), (tracks, library.tracks)))


def _is_struct(value: Any) -> bool:
    """Whether a value of NumPy's has fields, which are arguments of their own."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.names is not None
