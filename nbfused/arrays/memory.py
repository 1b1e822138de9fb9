"""NumPy arrays over an address, made without reading the memory."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["array_over"]


class _Interface:
    """The array interface of an address; the array made keeps it as ``base``."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def array_over(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...],
               itemsize: int, *, readonly: bool = False,
               owner: Any = None) -> np.ndarray:
    """Wrap memory as an array of unsigned integers of `itemsize` bytes.

    Nothing is read, so device addresses are fine as long as nobody else reads either.

    Parameters
    ----------
    pointer
        Address of the first element.
    shape, strides
        Strides in elements.
    itemsize
        1, 2, 4, 8, or 16 (then complex128, as there is no such integer).
    readonly
        Whether NumPy must refuse to write.
    owner
        Kept alive by the result.
    """
    typestr = "c16" if itemsize == 16 else f"u{itemsize}"
    interface = {
        # Empty arrays may have no address, which NumPy does not take.
        "data": (pointer or itemsize, readonly),
        "shape": shape,
        "strides": tuple([stride * itemsize for stride in strides]),
        "typestr": np.dtype(typestr).str,
        "version": 3,
    }
    return np.asarray(_Interface(interface, owner))
