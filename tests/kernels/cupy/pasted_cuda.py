"""What CUDA C++ has besides C: small vectors, conversions, arithmetic by rounding."""

from __future__ import annotations

import numpy as np

import nbfused as nf
from nbfused import ElementwiseKernel

RNG = np.random.default_rng(31)
X = np.r_[RNG.uniform(-5, 5, 20), 2.5, -2.5, 0.5]


def reflected(put):
    """Vectors that functions take and return, one inside the call of another."""
    kernel = ElementwiseKernel("raw T p, raw T n", "raw T y", """
        const float3 a = make_float3(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
        float3 b{(float)n[3 * i], (float)n[3 * i + 1], (float)n[3 * i + 2]};
        float3 c = minus(a, scaled(b, 2.0f * dot(a, b) / dot(b, b)));
        double2 mean = make_double2(c.x + c.y, c.z);
        c.z += 1;
        y[4 * i] = c.x; y[4 * i + 1] = c.y; y[4 * i + 2] = c.z;
        y[4 * i + 3] = mean.x * mean.y;""", "reflected", preamble="""
        __device__ float dot(const float3& a, const float3& b) {
            return a.x * b.x + a.y * b.y + a.z * b.z; }
        __device__ float3 scaled(float3 a, float k) {
            return make_float3(a.x * k, a.y * k, a.z * k); }
        __device__ float3 minus(float3 a, float3 b) {
            a.x -= b.x; a.y -= b.y; a.z -= b.z; return a; }""")
    p, n = RNG.normal(size=(2, 5, 3))
    found = kernel(put(p.ravel()), put(n.ravel()), put(np.zeros(20)), size=5)
    c = p - n * (2 * (p * n).sum(1) / (n * n).sum(1))[:, None]
    product = (c[:, 0] + c[:, 1]) * c[:, 2]
    expected = np.column_stack([c + np.array([0, 0, 1]), product]).ravel()
    return np.round(nf.to_numpy(found) - expected, 5), np.zeros(20)


def clipped_colours(put):
    """Integers of four parts, one word each."""
    kernel = ElementwiseKernel("uint32 word, T gain", "uint32 y", """
        uint4 c = make_uint4(word & 255u, (word >> 8) & 255u, (word >> 16) & 255u,
                             word >> 24);
        int2 range = {0, 255};
        const uint4 d = make_uint4(
            min(max((int)(c.x * gain), range.x), range.y), c.y, c.z, c.w / 2);
        y = d.x | d.y << 8 | d.z << 16 | d.w << 24;""", "colours")
    words = RNG.integers(0, 2**32, 20, dtype=np.uint32)
    parts = words.view(np.uint8).reshape(20, 4).astype(int)
    parts[:, 0] = np.clip(parts[:, 0] * 1.5, 0, 255)
    parts[:, 3] //= 2
    return kernel(put(words), 1.5), parts.astype(np.uint8).view(np.uint32).ravel()


def conversions(put):
    kernel = ElementwiseKernel("float64 x", "int64 a, int64 b, int64 c, int64 d", """
        a = __double2int_rn(x); b = __double2ll_rd(x);
        c = __float2int_ru((float)x); d = __double2int_rz(x);""", "conversions")
    return np.stack([nf.to_numpy(f) for f in kernel(put(X))]), np.stack([
        np.rint(X), np.floor(X), np.ceil(X.astype(np.float32)), np.trunc(X)])


def by_rounding(put):
    kernel = ElementwiseKernel("float32 x", "float32 y, float32 z", """
        const float h = __half2float(__float2half(x));
        y = __fadd_rn(__fmul_rn(h, 2), __frcp_rn(x)) - __fsub_rn(x, 1);
        z = __saturatef(x) + __int2float_rn(3) + __ddiv_rn(1, 4);""", "rounding")
    x = X.astype(np.float32)
    h = x.astype(np.float16).astype(np.float32)
    found = [nf.to_numpy(f) for f in kernel(put(x))]
    expected = h * 2 + np.float32(1) / x - (x - 1), np.clip(x, 0, 1) + np.float32(3.25)
    return np.round(np.stack(found) - np.stack(expected), 5), np.zeros((2, len(x)))


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__}
