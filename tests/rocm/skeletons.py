"""`tests.cpu.skeletons` on a device: a call's host memory is copied there and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nbfused.rocm import RocmBackend
from nbfused.rocm.runtime import TO_DEVICE, TO_HOST, device
from nbfused.scalar.types import Weak

ROCM = RocmBackend()


def reach(shape, strides):
    """Offsets in elements of the first element in memory and behind the last."""
    if 0 in shape and not any(strides):
        return 0, 0  # NumPy's strides of empty arrays
    ends = [(max(n, 1) - 1)*s for n, s in zip(shape, strides, strict=True)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + 1


class OnDevice:
    """Takes `CPU`'s place in those skeletons."""

    def build(self, spec, signature):
        launcher = ROCM.build(spec, signature)
        arrays = [t for t in signature.inputs if not isinstance(t, Weak)]
        dtypes = [*map(np.dtype, arrays), *signature.outputs]

        def run(call):
            where = device(0)
            spans = []
            for dtype, address, strides in zip(dtypes, call.pointers, call.strides,
                                               strict=True):
                low, high = reach(call.shape, strides)
                spans.append((address + low*dtype.itemsize,
                              (high - low)*dtype.itemsize, -low*dtype.itemsize))
            copies = [where.allocate(size) for _, size, _ in spans]
            for copy, (host, size, _) in zip(copies, spans, strict=True):
                where.copy(copy, host, size, TO_DEVICE)
            launcher(replace(call, pointers=tuple(
                copy + shift for copy, (*_, shift) in zip(copies, spans, strict=True))))
            where.synchronize()
            count = len(arrays)
            for copy, (host, size, _) in list(zip(copies, spans, strict=True))[count:]:
                where.copy(host, copy, size, TO_HOST)
            for copy in copies:
                where.free(copy)

        return run
