"""Benchmarks of HIP kernels against Numba CUDA kernels on one NVIDIA GPU.

``NBFUSED_ROCM_EMULATE=nvidia`` makes the HIP text run there: both are measured in one
process, in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import nbfused as nf
from nbfused.config import config

from .where import normal, picoseconds, place

KINDS = ("rocm", "cuda")
SIZES = (1024, 4096)


def missing() -> str | None:
    """The reason why HIP and Numba cannot be compared here, or None."""
    found = nf.backends()
    for kind in KINDS:
        if not found[kind].enabled:
            return f"{kind}: {found[kind].why or 'not enabled'}"
    if config.rocm_emulate != "nvidia":
        return "HIP kernels run on an NVIDIA GPU under NBFUSED_ROCM_EMULATE=nvidia only"
    return None


def swish(where: str, size: int) -> Callable[[], Any]:
    x, out = place(where, *(normal(size, size),) * 2)
    return partial(nf.ops.swish, x, out=out)


def layer_norm(where: str, size: int) -> Callable[[], Any]:
    x, weight, bias, out = place(
        where, normal(size, size), *(normal(size),) * 2, normal(size, size)
    )
    return partial(nf.ops.layer_norm, x, weight, bias, out=out)


def total(where: str, size: int) -> Callable[[], Any]:
    return partial(nf.ops.sum, *place(where, normal(size, size)))


def matmul_add_relu(where: str, size: int) -> Callable[[], Any]:
    a, b, bias = place(where, *(normal(size, size),) * 2, normal(size))
    return partial(nf.ops.matmul_add_relu, a, b, bias)


#: For each op how to set it up, and its work: bytes, or operations of the product.
OPS: dict[str, tuple[Callable[[str, int], Callable[[], Any]], Callable[[int], int]]] = {
    "swish": (swish, lambda n: 8 * n**2),
    "layer_norm": (layer_norm, lambda n: 8 * n**2),
    "sum": (total, lambda n: 4 * n**2),
    "matmul_add_relu": (matmul_add_relu, lambda n: 2 * n**3),
}


class HipAgainstNumba:
    """Ops on square float32 matrices: time per byte, or FLOP of a product."""

    param_names = ("op", "size")
    params = (tuple(OPS), SIZES)
    quick = (tuple(OPS), (33,))

    calls: dict[str, Callable[[], Any]]

    def setup(self, op: str, size: int) -> None:
        why_not = missing()
        if why_not is not None:
            raise NotImplementedError(why_not)  # what asv skips for
        prepare, _ = OPS[op]
        self.calls = {kind: prepare(f"{kind}:0", size) for kind in KINDS}
        for call in self.calls.values():
            call()
        nf.synchronize()

    def picoseconds(self, kind: str, op: str, size: int) -> float:
        _, work = OPS[op]
        return picoseconds(self.calls[kind], work(size))

    def track_hip(self, op: str, size: int) -> float:
        return self.picoseconds("rocm", op, size)

    track_hip.unit = "ps/B or ps/FLOP"  # type: ignore[attr-defined]

    def track_numba(self, op: str, size: int) -> float:
        return self.picoseconds("cuda", op, size)

    track_numba.unit = "ps/B or ps/FLOP"  # type: ignore[attr-defined]

    def track_hip_over_numba(self, op: str, size: int) -> float:
        """HIP's time over Numba's: the median of five comparisons."""
        ratios = [self.picoseconds("rocm", op, size)
                  / self.picoseconds("cuda", op, size) for _ in range(5)]
        return sorted(ratios)[2]

    track_hip_over_numba.unit = "times theirs"  # type: ignore[attr-defined]
