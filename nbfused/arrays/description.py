"""`Array`, the description of an array, and `Library`, which makes arrays like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..support.records import record

__all__ = ["Array", "Library", "Reading"]


@record
class Array:
    """A description of an array; it holds no copy.

    Attributes
    ----------
    pointer : int
        Address of the first element, the one with index ``(0, 0, …)``.
    shape : tuple of int
    strides : tuple of int
        In elements; may be negative or 0.
    dtype : numpy.dtype
        One of those that kernels take, in native byte order.
    device : str
        ``"cpu"``, ``"cuda:0"``, ``"rocm:0"``.
    stream : int or None
        Handle of the stream on which the elements are ready (0: legacy default,
        2: per-thread default); None if they are ready already, as on the host.
    readonly : bool
        Whether it must not be written to.
    library : Library
        Makes arrays of the caller's own type.
    owner : object
        Keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: str
    stream: int | None
    readonly: bool
    library: Library = field(repr=False)
    owner: Any = field(repr=False)

    @property
    def place(self) -> tuple[Library, str]:
        """The array's library and device."""
        return self.library, self.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


class Reading(NamedTuple):
    """Source text by which a generated call reads an argument ``{x}``.

    Attributes
    ----------
    value
        Expression for the address, or for a number itself.
    key
        Expressions; together with the type they decide all that `describe` says
        besides the address.
    first
        A statement to begin with.
    unless
        Condition under which only `describe` can tell.
    unless_now
        The same of a condition that does not ask for ``{x}``: looked at once a call.
    names
        What the text names.
    """

    value: str
    key: tuple[str, ...] = ()
    first: str = ""
    unless: str = ""
    unless_now: str = ""
    names: tuple[tuple[str, Any], ...] = ()


class Library(Protocol):
    """One array library: how to read its arrays and how to make new ones.

    It may have a method ``reading() -> Reading`` for arrays of its very type;
    ``viewer(native, shape, strides, offset)``, which gives a function that does what
    `view` does for arrays laid out as `native`; ``from_numpy(host, device)``, which
    copies from the host; and three for a library that counts
    writes: ``wrote(arrays)``, which is told of those of ours, ``version(x)``, the
    count, None for an array without one, and ``counted(x)``, the first and the last
    address between which arrays have the same count.
    """

    name: str
    writable: bool
    """False where arrays are immutable (JAX): no ``out=``, no operation in place."""
    differentiates: bool
    """Whether `tracks` may ever be true."""

    def describe(self, x: Any, name: str) -> Array:
        """Describe `x`; `name` is what messages call it."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate an array that a kernel may fill, then `finish` will hand out."""

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates as `empty` does, with its arguments bound."""

    def pointer(self, native: Any) -> int:
        """The address of the first element of what `empty` or `view` gave."""

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View `native` with these strides, `offset` elements from its first one."""

    def stream(self, device: str) -> int:
        """Handle of the stream that the caller works on; 0 on the host."""

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the current stream of `device`."""

    def free_cache(self, device: str) -> None:
        """Return memory that the library caches to the device."""

    def tracks(self, x: Any) -> bool:
        """Whether the library's own autograd records operations on `x`."""

    def finish(self, native: Any) -> Any:
        """Convert an array that `empty` made, once filled, to the caller's type."""

    def to_host(self, x: Any) -> np.ndarray:
        """Convert to NumPy; without a copy if `x` is on the host."""
