"""Launches like those before: what was decided about their arguments is known.

A launch on arrays and numbers of types, extents and layouts that came before takes the
kernel from then, and no checks: only addresses, numbers and the stream are new.
Measured: benchmarks/notes/cpu.md#launches-of-threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

import numpy as np

from ...arrays import Library
from ...arrays.detect import exact_library
from ...autograd.versions import note_write
from ...config import config
from ...dispatch.raw import Launchable, launch
from ...registry.backends import registry
from ...support.records import record
from .launching import Options

__all__ = ["KnownLaunches", "Seen"]

#: Launches that a kernel remembers.
_MOST = 1024
#: Whether a number of a type is passed as it is; those that are not decide more.
_PASSED: dict[type, Callable[[Any], bool]] = {
    bool: lambda x: True, float: lambda x: True, complex: lambda x: True,
    int: lambda x: -2**63 <= x < 2**63}
_LIBRARIES: dict[type, Library | None] = {}


@record(frozen=True)
class Seen:
    """The arguments of a launch, read.

    Attributes
    ----------
    key
        Equal for launches that differ in addresses, numbers and owners only.
    values, owners
        For each parameter that is not frozen an `Array` or a number, and the argument.
    """

    key: Hashable
    values: tuple[Any, ...]
    owners: tuple[Any, ...]


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
        self._kernels: dict[Hashable, tuple[Launchable, tuple[int, ...]]] = {}

    def read(self, arguments: Mapping[str, Any], options: Options) -> Seen | None:
        """Read arguments; None of those that are looked at each time."""
        if config.debug or options.shared or options.places or not self._possible:
            return None
        keys, values, owners = [], [], []
        for name, value in arguments.items():
            frozen = name in self._frozen
            found = _read(name, value, frozen)
            if found is None:
                return None
            keys.append(found[0])
            if not frozen:
                values.append(found[1])
                owners.append(value)
        return Seen((registry.state(), options, *keys), tuple(values), tuple(owners))

    def start(self, seen: Seen, options: Options) -> bool:
        """Launch on arguments like some before; False if there were none."""
        known = self._kernels.get(seen.key)
        if known is None:
            return False
        kernel, written = known
        try:
            launch(kernel, (*seen.values, *options.dim), options.grid, options.block,
                   stream=options.stream)
        finally:
            note_write([seen.owners[k] for k in written])
        return True

    def remember(self, seen: Seen, kernel: Launchable) -> None:
        """Remember what was launched."""
        if len(self._kernels) >= _MOST:
            self._kernels.clear()
        self._kernels[seen.key] = kernel, tuple(
            k for k, p in enumerate(kernel.spec.function.params)
            if p in kernel.spec.written)


def _read(name: str, value: Any, frozen: bool) -> tuple[Hashable, Any] | None:
    """The part of a key that stands for an argument, and the value to pass."""
    kind = type(value)
    passed = _PASSED.get(kind)
    if passed is not None:
        return ((kind, repr(value) if frozen else ""), value) if passed(value) else None
    if isinstance(value, np.generic):
        return None if frozen or value.dtype.names else (str(value.dtype), value)
    library = _library(kind)
    if library is None or frozen or (
            kind is np.ndarray and value.dtype.names is not None):
        return None
    array = library.describe(value, name)
    if library.tracks(value):
        return None
    return (kind, array.device, array.dtype, array.shape, array.strides,
            array.readonly), array


def _library(kind: type) -> Library | None:
    try:
        return _LIBRARIES[kind]
    except KeyError:
        found = _LIBRARIES[kind] = exact_library(kind)
        return found
