"""Raw-kernel argument layout, shared by the GPU backends."""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend import Call, Signature
from ..errors import RangeError
from ..specs.raw import TypedRaw
from .operands import operand_list

__all__ = ["BOUNDS", "RawLayout", "bound_of"]

#: Threads of a block that a kernel is compiled for: fewer may have more registers.
BOUNDS = (256, 512, 1024)
#: Shared arrays begin at multiples of this many bytes.
_ALIGN = 16


def bound_of(block: tuple[int, int, int]) -> int:
    """The smallest of `BOUNDS` that a block fits in."""
    threads = prod(block)
    return next(bound for bound in BOUNDS if threads <= bound)


class RawLayout:
    """Arrays, extents, strides and shared memory of a kernel.

    Attributes
    ----------
    typed
        The function, and what it asks of its launch.
    operands
        The arrays.
    axes
        The extents and strides that the function reads: (array, extent).
    picks
        The strides that the kernel takes: (array, axis).
    offsets
        Where each shared array begins, in bytes.
    shared
        Bytes of shared memory.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        self.typed = typed
        dtypes = [t for t, k in zip(signature.inputs, typed.kinds, strict=True)
                  if k == "array"]
        self.operands = operand_list(dtypes, signature.inner)
        params = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                    strict=False) if k == "array"]
        self.axes = [(params.index(e.array), e) for e in typed.extents]
        self.picks = [(at, k) for at, code in enumerate(signature.inner)
                      for k in range(int(code[1:]) - (code[0] == "c"))]
        self.offsets: list[int] = []
        self.shared = 0
        for array in typed.shared:
            self.offsets.append(self.shared)
            self.shared += -(-array.size*array.dtype.itemsize // _ALIGN)*_ALIGN

    def values(self, call: Call) -> tuple[Any, ...]:
        """The arguments: addresses, extents, strides, numbers."""
        return (*call.pointers, *(e.value(call, k) for k, e in self.axes),
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
