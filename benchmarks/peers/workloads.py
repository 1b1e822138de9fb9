"""The measured workloads, on a GPU and on the cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from .workload import SIZE, Input, Workload, labels, normal, squares

__all__ = ["workloads"]


def _shape(rows: int, columns: int) -> str:
    return f"({rows}, {columns})"


def _elementwise(count: int, square: int) -> Iterator[Workload]:
    name = f"swish {count/1e6:.1f} M"
    for dtype, bar in (("float32", 0.97), ("bfloat16", 0.95)):
        yield Workload(name, "swish", normal((count,)), dtype, 2*count*SIZE[dtype],
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
                        (twice if both else once)*r*c*SIZE[dtype], both=both)


def _fused(rows: int, columns: int) -> Iterator[Workload]:
    for family, (rest, _, twice) in _FUSED.items():
        for dtype in ("bfloat16", "float32"):
            yield Workload(
                f"{family} {_shape(rows, columns)}, both ways", family,
                normal((rows, columns), *rest(rows, columns)), dtype,
                twice*rows*columns*SIZE[dtype], bar=0.9, against="ceiling", both=True)


def _cross_entropy(rows: int, columns: int) -> Iterator[Workload]:
    for both in (False, True):
        yield Workload(f"cross_entropy {_shape(rows, columns)}" + ", both ways"*both,
                       "cross_entropy", (*normal((rows, columns)),
                                         labels(rows, columns)), "bfloat16",
                       (3 if both else 1)*rows*columns*2, both=both)


def _linear(label: str, x: Input, weight: Input, dtypes: tuple[str, ...],
            activations: tuple[str, ...]) -> Iterator[Workload]:
    """A workload of a linear layer, ``activation(x @ weight + bias)``."""
    columns = weight.shape[-1]
    flop = 2.0*columns*x.shape[-1]
    for extent in x.shape[:-1]:
        flop *= extent
    for dtype in dtypes:
        for activation in activations:
            yield Workload(f"matmul+bias+{activation} {label}", "linear",
                           (x, weight, *normal((columns,))), dtype, flop, "FLOP",
                           options={"activation": activation})


def _square_linear(sizes: tuple[tuple[int, int, int], ...], dtypes: tuple[str, ...],
                   activations: tuple[str, ...]) -> Iterator[Workload]:
    for m, n, k in sizes:
        yield from _linear(f"{m}x{n}x{k}", Input((m, k)), Input((k, n)), dtypes,
                           activations)


def _laid_out(edge: int, batch: int, rows: int, deep: int) -> Iterator[Workload]:
    """Workloads of products of transposed, batched and broadcast operands."""
    flat, turned = Input((edge, edge)), Input((edge, edge), transposed=True)
    cases: tuple[tuple[str, Input, Input], ...] = (
        (f"{edge}^3, A transposed", turned, flat),
        (f"{edge}^3, B transposed", flat, turned),
        (f"{batch} x {rows}^3", Input((batch, rows, rows)), Input((batch, rows, rows))),
        (f"({batch//2}, {rows//2}, {deep}) @ ({deep}, {deep})",
         Input((batch//2, rows//2, deep)), Input((deep, deep))),
    )
    for label, x, weight in cases:
        yield from _linear(label, x, weight, ("bfloat16", "float16"),
                           ("relu", "gelu_tanh"))


def _products(edge: int) -> Iterator[Workload]:
    for dtype in ("float32", "tfloat32"):
        yield Workload(f"matmul {edge}^3", "matmul", normal(*[(edge, edge)]*2), dtype,
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


def _small_products(count: int) -> Iterator[Workload]:
    """Batches of small matrices, and one matrix for many points."""
    for left, right in (((count, 3, 3), (count, 3, 3)), ((count, 4, 4), (count, 4, 1)),
                        ((5*count, 3), (3, 3)), ((count//10, 16, 16),)*2,
                        ((16, 16), (count//10, 16, 16))):
        batch = prod(max(left[:-2], right[:-2]))
        yield Workload(f"matmul {left} @ {right}", "matmul", normal(left, right),
                       "float32", 2.0*batch*prod(left[-2:])*right[-1], "FLOP")


def _adam(count: int) -> Workload:
    return Workload(f"adam_step {count/1e6:.1f} M", "adam_step",
                    (*normal(*[(count,)]*3), squares(count)), "float32", 28*count)


def _cuda() -> Iterator[Workload]:
    yield from _elementwise(1 << 26, 8192)
    yield from _reductions(8192, 1 << 28)
    yield from _rows(((8192, 4096), (32768, 1024), (4096, 32768)))
    yield from _fused(8192, 4096)
    yield from _cross_entropy(8192, 128256)
    halves = ("bfloat16", "float16")
    yield from _square_linear(
        ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 28672, 8192)), halves,
        ("relu", "gelu_tanh", "gelu", "swish"))
    yield from _square_linear(
        ((512, 512, 512), (16, 8192, 8192), (4104, 4072, 4040), (4097, 4095, 4099)),
        halves, ("relu", "gelu_tanh"))
    yield from _laid_out(4096, 16, 1024, 4096)
    yield from _products(4096)
    yield from _batched(((16, 1024, 1024, 512), (128, 512, 512, 256)))
    yield _adam(1 << 26)


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
    yield from _square_linear(((1024, 1024, 1024),), ("float32",), ("relu",))
    yield from _small_products(20_000)
    yield _adam(ten)


def _quick() -> Iterator[Workload]:
    """Small workloads, one for each family, which the tests run."""
    yield from _elementwise(1000, 20)
    yield from _reductions(20, 1000)
    yield from _rows(((24, 64),))
    yield from _fused(24, 64)
    yield from _cross_entropy(24, 64)
    yield from _square_linear(((24, 40, 64),), ("float32",),
                              ("relu", "gelu", "gelu_tanh", "swish"))
    yield from _laid_out(24, 4, 32, 16)
    yield from _products(24)
    yield from _batched(((2, 24, 32, 40),))
    yield from _small_products(20)
    yield _adam(1000)


def workloads(device: str, quick: bool = False) -> list[Workload]:
    """The workloads for ``"cuda"`` or ``"cpu"``."""
    if quick:
        return list(_quick())
    return list(_cuda() if device.startswith("cuda") else _cpu())
