"""Printed functions as Numba kernels over arrays, and numbers to try them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from nbfused.scalar.ir.nodes import Block, Function, Let
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.printing.numba import NAMES, Raw, decode, statements
from nbfused.scalar.printing.numba_operations import Calls
from nbfused.scalar.typing.promotion import compute_dtype
from nbfused.scalar.typing.types import Typed


def operation(op: str) -> Function:
    """The function that is this one operation."""
    params = tuple("abc"[:OPS[op].arity])
    return Function(op, params, Block((Let(("y",), op, params),), ("y",)))


def storage(dtype: np.dtype) -> np.dtype:
    """How kernels see elements of `dtype`."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if compute_dtype(dtype) != dtype else dtype


def source(functions: dict[str, Typed], params: Sequence[np.dtype],
           calls: Calls | None = None) -> str:
    """A kernel that calls `functions` on the same arguments at each element."""
    head = [f"x{k}" for k in range(len(params))]
    outs = [f"{name}_{k}" for name, typed in functions.items()
            for k in range(len(typed.results))]
    lines = [f"a{k} = {decode(d, f'x{k}[i]')}" for k, d in enumerate(params)]
    for name, typed in functions.items():
        arguments: dict[str, str | Raw] = {
            p: f"a{k}" for k, p in enumerate(typed.function.params)}
        results = [f"r_{name}_{k}" for k in range(len(typed.results))]
        lines += statements(typed, arguments, results, prefix=f"{name}_",
                            calls=calls)
        lines += [f"{name}_{k}[i] = {r}" for k, r in enumerate(results)]
    body = "\n".join(f"        {line}" for line in lines)
    return (f"def kernel({', '.join([*head, *outs])}, n):\n"
            f"    for i in range(n):\n{body}\n")


def compiled(functions: dict[str, Typed], params: Sequence[np.dtype],
             **namespace: Any) -> Callable[..., dict[str, tuple[np.ndarray, ...]]]:
    """A callable on arrays that gives the results of each function.

    Results are written in their computing dtypes and rounded by NumPy.
    """
    scope: dict[str, Any] = {**NAMES, **namespace}
    exec(source(functions, params), scope)
    kernel = numba.njit(error_model="numpy")(scope["kernel"])

    def call(*args: np.ndarray) -> dict[str, tuple[np.ndarray, ...]]:
        n = len(args[0])
        outs = {name: tuple(np.empty(n, compute_dtype(d)) for d in typed.results)
                for name, typed in functions.items()}
        stored = [a.view(storage(a.dtype)) for a in args]
        kernel(*stored, *(o for group in outs.values() for o in group), n)
        with np.errstate(over="ignore"):
            return {name: tuple(o.astype(d) for o, d in zip(
                outs[name], t.results, strict=True)) for name, t in functions.items()}

    return call


def numbers(dtype: np.dtype) -> np.ndarray:
    """Special values of `dtype` first, then ordinary ones."""
    rng = np.random.default_rng(0)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        low, lowest, highest = max(bounds.min, -100), bounds.min, bounds.max
        special = [0, 1, 2, 3, 7, highest, highest - 1, lowest, lowest + 1]
        special += [-1, -2, -3, -7] if dtype.kind == "i" else []
        return np.concatenate([np.array(special, dtype),
                               rng.integers(low, 100, 20).astype(dtype)])
    info = np.finfo(dtype)
    magnitudes = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1e-3, 20.0, 89.0, 1000.0, 2.0**23 + 1,
                  info.tiny, info.smallest_subnormal, info.max, np.inf]
    extremes = [s*float(m) for m in magnitudes for s in (1.0, -1.0)] + [np.nan]
    ordinary = np.concatenate([rng.normal(size=40)*3, rng.uniform(0, 1, 20)])
    return np.concatenate([extremes, ordinary]).astype(dtype)


def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every special value against every other, and some ordinary pairs."""
    values = numbers(dtype)
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())
