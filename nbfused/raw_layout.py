"""What a kernel of a Raw takes on a GPU, whichever: the same on every maker's."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .backend import Call, Signature
from .errors import RangeError
from .specs.raw import TypedRaw

__all__ = ["BOUNDS", "RawLayout", "bound_of"]

#: Threads that a kernel is compiled for: fewer of them may have more registers.
BOUNDS = (256, 512, 1024)
#: Shared arrays begin at multiples of this many bytes.
_ALIGN = 16


def bound_of(block: tuple[int, int, int]) -> int:
    """Which of `BOUNDS` a block needs."""
    threads = prod(block)
    return next(bound for bound in BOUNDS if threads <= bound)


class RawLayout:
    """Arrays, extents, strides and shared memory of a kernel.

    Attributes
    ----------
    arrays
        Dtype of each array, and what `Signature.inner` says of it.
    axes
        Which extents the kernel takes: (array, axis).
    picks
        Which strides the kernel takes: (array, axis).
    offsets
        Where each shared array begins, in bytes.
    shared
        Bytes of shared memory.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        dtypes = [np.dtype(t)  # type: ignore[arg-type]  # arrays
                  for t, k in zip(signature.inputs, typed.kinds, strict=True)
                  if k == "array"]
        self.arrays = list(zip(dtypes, signature.inner, strict=True))
        params = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                    strict=False) if k == "array"]
        self.axes = [(params.index(e.array), e.axis) for e in typed.extents]
        self.picks = [(at, k) for at, code in enumerate(signature.inner)
                      for k in range(int(code[1:]) - (code[0] == "c"))]
        self.offsets: list[int] = []
        self.shared = 0
        for array in typed.shared:
            self.offsets.append(self.shared)
            self.shared += -(-array.size*array.dtype.itemsize // _ALIGN)*_ALIGN

    def values(self, call: Call) -> tuple[Any, ...]:
        """The arguments: addresses, extents, strides, numbers."""
        return (*call.pointers, *(call.extents[k][a] for k, a in self.axes),
                *(call.strides[k][a] for k, a in self.picks), *call.scalars)

    def shared_of(self, call: Call, name: str, device: str, limit: int) -> int:
        """Bytes of shared memory of a block of this launch.

        Raises
        ------
        RangeError
            If they are more than `limit`.
        """
        if self.shared + call.shared > limit:
            raise RangeError(
                f"{name}: {self.shared} bytes of shared arrays and {call.shared} of "
                f"dynamic shared memory; a block on {device} has at most {limit}; use "
                "smaller arrays")
        return self.shared + call.shared
