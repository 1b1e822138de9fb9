"""``python -m benchmarks.pasted``: pasted C bodies by nbfused and by CuPy's NVRTC.

The same texts, arrays and stream: what CuPy compiles with NVRTC against what nbfused
makes of it.  A kernel whose results differ from CuPy's by more than rounding is not
timed, and makes the exit status 1.  GPU time with a flushed cache; needs CuPy.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nbfused import kernels

from .__main__ import pattern
from .clock import clock

__all__ = ["KERNELS", "Pasted", "main"]

ELEMENTS = 1 << 24
SIDE = 1 << 12
TURNS = 5


class Pasted(NamedTuple):
    """A kernel's text and how its arguments are made.

    Attributes
    ----------
    name
        Of the kernel.
    maker
        ``"ElementwiseKernel"`` or ``"ReductionKernel"``.
    text
        What the maker takes before its name.
    arguments
        Arrays and numbers of NumPy, from a generator of random numbers.
    options
        Keywords of the call: ``size``, ``axis``.
    preamble
        Device functions.
    """

    name: str
    maker: str
    text: tuple[str, ...]
    arguments: Callable[[np.random.Generator], Sequence[Any]]
    options: Mapping[str, Any] = MappingProxyType({})
    preamble: str = ""


def _floats(count: int, dtype: str = "float32") -> Callable[[np.random.Generator], Any]:
    return lambda rng: [rng.standard_normal(ELEMENTS).astype(dtype)
                        for _ in range(count)]


def _image(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((SIDE, SIDE)).astype(np.float32), SIDE, SIDE]


def _places(rng: np.random.Generator) -> list[Any]:
    size = 1 << 20
    return [rng.uniform(0, size - 2, ELEMENTS).astype(np.float32),
            rng.standard_normal(size).astype(np.float32)]


def _counted(rng: np.random.Generator) -> list[Any]:
    return [rng.integers(0, 1 << 31, ELEMENTS).astype(np.uint32)]


def _rows(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((SIDE, SIDE)).astype(np.float32)]


KERNELS = (
    Pasted("squared difference", "ElementwiseKernel",
           ("T x, T y", "T z", "z = (x - y)*(x - y)"), _floats(2)),
    Pasted("broadcast scale", "ElementwiseKernel",
           ("T x, T s, T t", "T y", "y = fmax(x*s + t, T(0))"),
           lambda rng: [*_rows(rng), rng.random(SIDE, np.float32),
                        rng.random((SIDE, 1), np.float32)]),
    Pasted("gelu", "ElementwiseKernel",
           ("T x", "T y", "y = T(0.5)*x*(T(1) + erf(x*T(0.70710678118654752)))"),
           _floats(1)),
    Pasted("swish of halves", "ElementwiseKernel",
           ("float16 x", "float16 y", "float v = x; y = v / (1.0f + expf(-v))"),
           _floats(1, "float16")),
    Pasted("two outputs", "ElementwiseKernel",
           ("T r, T a", "T x, T y", "x = r*cos(a); y = r*sin(a)"), _floats(2)),
    Pasted("float64 polynomial", "ElementwiseKernel",
           ("T x", "T y",
            "T s = 0; for (int k = 8; k > 0; --k) s = s*x + T(1)/k; y = s"),
           _floats(1, "float64")),
    Pasted("interpolation", "ElementwiseKernel",
           ("T x, raw T table", "T y", "int k = (int)floor(x); T t = x - k; "
            "y = table[k]*(T(1) - t) + table[k + 1]*t"), _places),
    Pasted("five-point stencil", "ElementwiseKernel",
           ("raw T x, int32 h, int32 w", "T y",
            "int r = i / w, c = i % w; bool inside = r > 0 && c > 0 && r < h - 1 "
            "&& c < w - 1; y = inside ? x[i - 1] + x[i + 1] + x[i - w] + x[i + w] "
            "- T(4)*x[i] : T(0)"), _image, {"size": SIDE*SIDE}),
    Pasted("bits", "ElementwiseKernel",
           ("uint32 x", "int32 y", "y = __popc(x) + __clz(x) + __ffs(x)"), _counted),
    Pasted("xorshift", "ElementwiseKernel",
           ("uint32 x", "float32 y",
            "unsigned int s = x | 1u; for (int k = 0; k < 8; ++k) { s ^= s << 13; "
            "s ^= s >> 17; s ^= s << 5; } y = (s >> 8)*(1.0f/16777216.0f)"), _counted),
    Pasted("mandelbrot", "ElementwiseKernel",
           ("T x, T y", "int32 steps", "T a = 0, b = 0; int k = 0; while (k < 64 && "
            "a*a + b*b < T(4)) { T t = a*a - b*b + x; b = T(2)*a*b + y; a = t; ++k; } "
            "steps = k"), _floats(2)),
    Pasted("device function", "ElementwiseKernel",
           ("T x, T y", "T z", "z = huber(x - y, T(0.5))"), _floats(2), {},
           "template<typename T> __device__ T huber(T e, T d) { T a = fabs(e); "
           "return a <= d ? T(0.5)*e*e : d*(a - T(0.5)*d); }"),
    Pasted("norm of all", "ReductionKernel",
           ("T x", "T y", "x*x", "a + b", "y = sqrt(a)", "0"), _floats(1)),
    Pasted("norm of rows", "ReductionKernel",
           ("T x", "T y", "x*x", "a + b", "y = sqrt(a)", "0"), _rows, {"axis": 1}),
    Pasted("norm of columns", "ReductionKernel",
           ("T x", "T y", "x*x", "a + b", "y = sqrt(a)", "0"), _rows, {"axis": 0}),
    Pasted("largest product", "ReductionKernel",
           ("T x, T y", "T z", "x*y", "max(a, b)", "z = a", "-1e30"), _floats(2)),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each kernel: seconds, and CuPy's time over ours."""
    given = _parser().parse_args(argv)
    found, wrong = {}, []
    for pasted in (k for k in KERNELS if given.only.search(k.name)):
        times = measured(pasted)
        if times is None:
            wrong.append(pasted.name)
            print(f"{pasted.name:20} differs from CuPy's", flush=True)
            continue
        ours, theirs = times
        found[pasted.name] = {"nbfused": ours, "cupy": theirs}
        print(f"{pasted.name:20} {ours*1e6:9.1f} us   {theirs/ours:5.2f} x CuPy",
              flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1))
    if found:
        ratios = sorted(t["cupy"]/t["nbfused"] for t in found.values())
        print(f"median {statistics.median(ratios):.2f}, least {ratios[0]:.2f}")
    return bool(wrong)


def measured(pasted: Pasted) -> tuple[float, float] | None:
    """Seconds by nbfused and by CuPy, in turns; None where results differ."""
    import cupy

    values = pasted.arguments(np.random.default_rng(0))
    arguments = [cupy.asarray(v) if isinstance(v, np.ndarray) else v for v in values]
    extra = {"preamble": pasted.preamble} if pasted.preamble else {}
    name = pasted.name.replace(" ", "_").replace("-", "_")
    calls = [partial(getattr(module, pasted.maker)(*pasted.text, name, **extra),
                     *arguments, **pasted.options) for module in (kernels, cupy)]
    if not _agree(*(call() for call in calls)):
        return None
    timer = clock("cuda")
    turns = [[timer.seconds(call) for call in calls] for _ in range(TURNS)]
    ours, theirs = (statistics.median(column) for column in zip(*turns, strict=True))
    return ours, theirs


def _agree(ours: Any, theirs: Any) -> bool:
    """Whether results are equal but for rounding, and for steps that it decides."""
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)),
                strict=True)
    for a, b in pairs:
        x, y = a.get(), b.get()
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        if x.dtype.kind in "iu":
            close = x == y
        else:
            close = np.isclose(x, y, rtol=64*np.finfo(x.dtype).eps,
                               atol=64*np.finfo(x.dtype).eps)
        if np.mean(close) < 1 - 1e-4:
            return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pasted",
                                     description=__doc__)
    parser.add_argument("--only", type=pattern, default="",
                        help="regular expression of kernels' names")
    parser.add_argument("--json", type=Path, help="write the seconds there")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
