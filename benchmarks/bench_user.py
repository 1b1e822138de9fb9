"""Benchmarks of user-written kernels against CUDA C written by hand.

On a GPU with CuPy the reference is a `cupy.RawKernel` with 16-byte accesses; elsewhere
it is the built-in op.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import nbfused as nf

from .clock import clock
from .where import WHERE, gradients, normal, place

ELEMENTS = (1 << 20, 1 << 26)
COLUMNS = 1 << 12

BY_HAND = r"""
#define EACH(f, r) r.x = f(v.x); r.y = f(v.y); r.z = f(v.z); r.w = f(v.w)
__device__ float sigmoid(float x) { return 1.0f/(1.0f + expf(-x)); }
__device__ float swish_of(float x) { return x*sigmoid(x); }
__device__ float slope_of(float x) {
    float s = sigmoid(x);
    return s + x*s*(1.0f - s);
}

extern "C" __global__ void swish(const float4* x, float4* y, long long n) {
    long long i = (long long)blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i], r;
    EACH(swish_of, r);
    y[i] = r;
}

extern "C" __global__ void slope(const float4* x, const float4* g, float4* d,
                                 long long n) {
    long long i = (long long)blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i], c = g[i], r;
    EACH(slope_of, r);
    d[i] = make_float4(c.x*r.x, c.y*r.y, c.z*r.z, c.w*r.w);
}

extern "C" __global__ void l2norm(const float4* x, float* y, long long n) {
    __shared__ float parts[8];
    const float4* row = x + blockIdx.x*n;
    float sum = 0.0f;
    #pragma unroll 4
    for (long long j = threadIdx.x; j < n; j += 256) {
        float4 v = row[j];
        sum += v.x*v.x + v.y*v.y + v.z*v.z + v.w*v.w;
    }
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x/32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) sum += parts[k];
        y[blockIdx.x] = sqrtf(sum);
    }
}

extern "C" __global__ void axpy(const float* x, float* y, float a, long long n) {
    long long i = (long long)blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) y[i] = a*x[i] + y[i];
}
"""

swish = nf.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "user_swish")
l2norm = nf.ReductionKernel("T x", "T y", "x*x", "a + b", "y = sqrt(a)", "0",
                            "user_l2norm")


@nf.rawkernel
def axpy(x, y, a):  # type: ignore[no-untyped-def]
    """``y = a*x + y``, one element for each thread."""
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = a*x[i] + y[i]


def by_hand(name: str) -> Callable[..., Any]:
    """A function that launches a kernel of `BY_HAND` on a grid and arguments."""
    import cupy

    kernel = cupy.RawKernel(BY_HAND, name)

    def launch(blocks: int, *arguments: Any) -> None:
        kernel((blocks,), (256,), arguments)

    return launch


class UserKernel:
    """Time of a float32 user kernel, and its ratio to the reference's time."""

    param_names = ("where", "kernel", "elements")
    kinds = ("elementwise", "gradient", "reduction", "raw")
    params = (tuple(w for w in WHERE if w != "numpy"), kinds, ELEMENTS)
    quick = (params[0], kinds, (1 << 13,))

    user: Callable[[], Any]
    reference: Callable[[], Any]

    def setup(self, where: str, kernel: str, elements: int) -> None:
        hand = where.startswith("cuda") and find_spec("cupy") is not None
        if hand:
            import_module("cupy")  # arrays are CuPy's then: RawKernel takes no others
        self.arrays = place(where, *(normal(elements),) * 3)
        self.elements, self.clock = elements, clock(where)
        self.user, reference = getattr(self, f"_{kernel}")()
        self.reference = reference(by_hand) if hand else self._built_in(kernel)
        self.user()
        self.reference()
        nf.synchronize()

    def _elementwise(self) -> Any:
        x, y, _ = self.arrays
        vectors = self.elements // 4
        return partial(swish, x, y), lambda hand: partial(
            hand("swish"), -(-vectors // 256), x, y, vectors)

    def _gradient(self) -> Any:
        """Time the forward kernel, and the one derived from it."""
        x, g, y = self.arrays
        vectors = self.elements // 4
        blocks = -(-vectors // 256)
        both = gradients(swish, x)

        def reference(hand: Callable[[str], Any]) -> Callable[[], None]:
            forward, backward = hand("swish"), hand("slope")
            d = place("cuda:0", normal(self.elements))[0]

            def run() -> None:
                forward(blocks, x, y, vectors)
                backward(blocks, x, g, d, vectors)

            return run

        return partial(both, g), reference

    def _reduction(self) -> Any:
        x, y, _ = self.arrays
        rows = x.reshape(-1, COLUMNS)
        return partial(l2norm, rows, axis=1), lambda hand: partial(
            hand("l2norm"), rows.shape[0], rows, y, COLUMNS // 4)

    def _raw(self) -> Any:
        x, y, _ = self.arrays
        blocks = -(-self.elements // 256)
        scale = x.dtype.type(0.5)
        return (lambda: axpy((blocks,), (256,), (x, y, scale))), lambda hand: partial(
            hand("axpy"), blocks, x, y, scale, self.elements)

    def _built_in(self, kernel: str) -> Callable[[], Any]:
        x, y, _ = self.arrays
        found: dict[str, Callable[[], Any]] = {
            "elementwise": lambda: nf.ops.swish(x, out=y),
            "gradient": partial(gradients(nf.ops.swish, x), y),
            "reduction": lambda: nf.ops.norm(x.reshape(-1, COLUMNS), axis=1),
            "raw": lambda: nf.ops.add(x, y, out=y),
        }
        return found[kernel]

    def track_microseconds(self, *params: object) -> float:
        return 1e6*self.clock.seconds(self.user)

    track_microseconds.unit = "us"  # type: ignore[attr-defined]

    def track_time_over_reference(self, *params: object) -> float:
        return self.clock.seconds(self.user) / self.clock.seconds(self.reference)

    track_time_over_reference.unit = "times theirs"  # type: ignore[attr-defined]
