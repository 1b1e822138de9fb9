"""What is measured: inputs, amount of work, and the ratio that is aimed at.

A `Workload` names a *family*, a function that each library of `libraries` knows in its
own words.  `bar` is the least ratio: the best peer's time over ours, or, where
`against` is ``"ceiling"``, the share of the copy's or the product's rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Inputs", "Workload", "cotangent_of", "workloads"]

Inputs = Callable[[np.random.Generator], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    family
        What is computed; with `both`, its derivative too.
    inputs
        Makes float32 (or integer) arrays; floats are stored as `dtype`.
    work
        Bytes that must be moved, or FLOP, of one call.
    options
        Keywords of the family's function.
    """

    name: str
    family: str
    inputs: Inputs
    dtype: str
    work: float
    unit: str = "B"
    bar: float = 1.0
    against: str = "peer"
    both: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def cotangent_of(shape: tuple[int, ...]) -> np.ndarray:
    """What all libraries begin the backward pass with; 1 for a scalar."""
    return np.random.default_rng(1).standard_normal(shape, np.float32) if shape \
        else np.ones((), np.float32)


def normal(*shapes: tuple[int, ...]) -> Inputs:
    """Standard normal numbers."""
    return lambda rng: tuple(rng.standard_normal(s, dtype=np.float32) for s in shapes)


def classes(rows: int, columns: int) -> Inputs:
    """Logits and labels."""
    return lambda rng: (rng.standard_normal((rows, columns), dtype=np.float32),
                        rng.integers(0, columns, rows))


def moments(count: int) -> Inputs:
    """Parameters, gradients and their first and second moments."""
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        p, g, m, v = (rng.standard_normal(count, dtype=np.float32) for _ in range(4))
        return p, g, m, v*v

    return make


_SIZE = {"float32": 4, "bfloat16": 2, "float16": 2}


def _shape(rows: int, columns: int) -> str:
    return f"({rows}, {columns})"


def _elementwise(count: int, square: int) -> Iterator[Workload]:
    name = f"swish {count/1e6:.1f} M"
    for dtype, bar in (("float32", 0.97), ("bfloat16", 0.95)):
        yield Workload(name, "swish", normal((count,)), dtype, 2*count*_SIZE[dtype],
                       bar=bar, against="ceiling")
    yield Workload(f"{name} sum, both ways", "swish_sum", normal((count,)), "float32",
                   20*count, bar=0.92, against="ceiling", both=True)
    yield Workload("squared_diff", "squared_diff", normal(*[(square, square)]*2),
                   "float32", 12*square**2)


def _reductions(square: int, count: int) -> Iterator[Workload]:
    for axis in (1, 0):
        yield Workload(f"squared distance, axis {axis}", "squared_distance",
                       normal(*[(square, square)]*2), "float32", 8*square**2,
                       options={"axis": axis})
        yield Workload(f"l2norm, axis {axis}", "l2norm", normal((square, square)),
                       "float32", 4*square**2, options={"axis": axis})
    yield Workload(f"sum of {count/1e6:.0f} M", "sum", normal((count,)), "float32",
                   4*count)


#: Shapes of the inputs after the first; arrays moved forward, and both ways.
Rows = tuple[Callable[[int, int], tuple[tuple[int, ...], ...]], int, int]

_ROWS: dict[str, Rows] = {
    "layer_norm": (lambda r, c: ((c,), (c,)), 2, 5),
    "rms_norm": (lambda r, c: ((c,),), 2, 5),
    "softmax": (lambda r, c: (), 2, 5),
}
_FUSED: dict[str, Rows] = {
    "add_rms_norm": (lambda r, c: ((r, c), (c,)), 4, 10),
    "swiglu": (lambda r, c: ((r, c),), 3, 8),
    "log_softmax": (lambda r, c: (), 2, 5),
}


def _rows(shapes: tuple[tuple[int, int], ...]) -> Iterator[Workload]:
    for family, (rest, once, twice) in _ROWS.items():
        for r, c in shapes:
            for dtype in ("bfloat16", "float32"):
                for both in (False, True):
                    yield Workload(
                        f"{family} {_shape(r, c)}" + ", both ways"*both, family,
                        normal((r, c), *rest(r, c)), dtype,
                        (twice if both else once)*r*c*_SIZE[dtype], both=both)


def _fused(rows: int, columns: int) -> Iterator[Workload]:
    for family, (rest, _, twice) in _FUSED.items():
        for dtype in ("bfloat16", "float32"):
            yield Workload(
                f"{family} {_shape(rows, columns)}, both ways", family,
                normal((rows, columns), *rest(rows, columns)), dtype,
                twice*rows*columns*_SIZE[dtype], bar=0.9, against="ceiling", both=True)


def _cross_entropy(rows: int, columns: int) -> Iterator[Workload]:
    for both in (False, True):
        yield Workload(f"cross_entropy {_shape(rows, columns)}" + ", both ways"*both,
                       "cross_entropy", classes(rows, columns), "bfloat16",
                       (3 if both else 1)*rows*columns*2, both=both)


def _linear(sizes: tuple[tuple[int, int, int], ...], dtypes: tuple[str, ...],
            activations: tuple[str, ...]) -> Iterator[Workload]:
    for m, n, k in sizes:
        for dtype in dtypes:
            for activation in activations:
                yield Workload(
                    f"matmul+bias+{activation} {m}x{n}x{k}", "linear",
                    normal((m, k), (k, n), (n,)), dtype, 2.0*m*n*k, "FLOP",
                    options={"activation": activation})


def _products(edge: int) -> Iterator[Workload]:
    yield Workload(f"matmul {edge}^3", "matmul", normal(*[(edge, edge)]*2), "float32",
                   2.0*edge**3, "FLOP")
    yield Workload(f"linear+gelu {edge}^3, both ways", "linear",
                   normal((edge, edge), (edge, edge), (edge,)), "bfloat16",
                   6.0*edge**3, "FLOP", both=True, options={"activation": "gelu"})


def _batched(sizes: tuple[tuple[int, int, int, int], ...]) -> Iterator[Workload]:
    for b, m, n, k in sizes:
        yield Workload(
            f"batched ({b}, {m}, {n}, {k}), permuted", "batched_permuted",
            normal((b, m, k), (b, k, n), (n,), (b, m, n)), "float16", 2.0*b*m*n*k,
            "FLOP", bar=1.5)


def _cuda() -> Iterator[Workload]:
    yield from _elementwise(1 << 26, 8192)
    yield from _reductions(8192, 1 << 28)
    yield from _rows(((8192, 4096), (32768, 1024), (4096, 32768)))
    yield from _fused(8192, 4096)
    yield from _cross_entropy(8192, 128256)
    yield from _linear(((4096, 4096, 4096), (8192, 8192, 8192), (8192, 28672, 8192)),
                       ("bfloat16", "float16"), ("relu", "gelu_tanh", "gelu", "swish"))
    yield from _linear(((512, 512, 512), (16, 8192, 8192), (4097, 4095, 4099)),
                       ("bfloat16",), ("relu",))
    yield from _products(4096)
    yield from _batched(((16, 1024, 1024, 512), (128, 512, 512, 256)))


def _cpu() -> Iterator[Workload]:
    ten = 10_000_000
    yield Workload("swish 10 M, into out=", "swish", normal((ten,)), "float32", 8*ten,
                   bar=1.3, options={"into": True})
    yield Workload("swish 10 M", "swish", normal((ten,)), "float32", 8*ten)
    for family, rest in (("layer_norm", ((1024,), (1024,))), ("softmax", ())):
        yield Workload(f"{family} (4096, 1024)", family, normal((4096, 1024), *rest),
                       "float32", 2*4096*1024*4)
    yield Workload("l2norm, axis 1", "l2norm", normal((4096, 4096)), "float32",
                   4*4096**2, options={"axis": 1})
    yield Workload("sum of 100 M", "sum", normal((100_000_000,)), "float32", 4e8)
    yield from _linear(((1024, 1024, 1024),), ("float32",), ("relu",))
    yield Workload("adam_step 10 M", "adam_step", moments(ten), "float32", 28*ten)


def _quick() -> Iterator[Workload]:
    """Every family once, small: what the tests run."""
    yield from _elementwise(1000, 20)
    yield from _reductions(20, 1000)
    yield from _rows(((20, 30),))
    yield from _fused(20, 30)
    yield from _cross_entropy(20, 30)
    yield from _linear(((20, 30, 40),), ("float32",), ("relu", "gelu", "swish"))
    yield from _products(20)
    yield from _batched(((2, 20, 30, 40),))
    yield Workload("adam_step", "adam_step", moments(1000), "float32", 28e3)


def workloads(device: str, quick: bool = False) -> list[Workload]:
    """The rows of the table for ``"cuda"`` or ``"cpu"``."""
    if quick:
        return list(_quick())
    return list(_cuda() if device.startswith("cuda") else _cpu())
