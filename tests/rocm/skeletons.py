"""`tests.cpu.skeletons` on a device: a call's host memory is copied there and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nbfused.rocm import RocmBackend
from nbfused.rocm.runtime.device import TO_DEVICE, TO_HOST, device
from nbfused.scalar.typing.types import Weak

ROCM = RocmBackend()
ACCESS = 16


def reach(shape, strides):
    """Offsets in elements of the first element in memory and behind the last."""
    if 0 in shape and not any(strides):
        return 0, 0  # NumPy's strides of an empty array
    ends = [(max(n, 1) - 1)*s for n, s in zip(shape, strides, strict=True)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + 1


@dataclass
class Copy:
    """An operand's memory on the host and on the device, aligned as on the host."""

    pointer: int
    host: int
    size: int
    room: int

    @property
    def base(self):
        return self.room + self.host % ACCESS

    @property
    def on_device(self):
        return self.base + self.pointer - self.host


def copy_of(where, dtype, pointer, shape, strides):
    low, high = reach(shape, strides)
    size = (high - low)*dtype.itemsize
    copy = Copy(pointer, pointer + low*dtype.itemsize, size,
                where.allocate(size + ACCESS))
    where.copy(copy.base, copy.host, size, TO_DEVICE)
    return copy


class OnDevice:
    """Takes `CPU`'s place in those skeletons."""

    def build(self, spec, signature):
        launcher = ROCM.build(spec, signature)
        arrays = [t for t in signature.inputs if not isinstance(t, Weak)]
        dtypes = [*map(np.dtype, arrays), *signature.outputs]

        def run(call):
            where = device(0)
            copies = [copy_of(where, dtype, pointer, call.shape, strides)
                      for dtype, pointer, strides in zip(
                          dtypes, call.pointers, call.strides, strict=True)]
            launcher(replace(call, pointers=tuple(c.on_device for c in copies)))
            where.synchronize()
            for copy in copies[len(arrays):]:
                where.copy(copy.host, copy.base, copy.size, TO_HOST)
            for copy in copies:
                where.free(copy.room)

        return run
