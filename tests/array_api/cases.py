"""Calls that the namespace has to answer as the standard's own implementation does."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbfused.array_api.standard import BINARY, UNARY

from .oracle import Case

__all__ = ["COUNTING", "DIVIDING", "ELEMENTWISE", "OF_COMPLEX", "OTHERS", "SPECIAL",
           "array", "dtypes"]

KINDS = {"f": ("float32", "float64"), "c": ("complex64", "complex128"),
         "i": ("int8", "int16", "int32", "int64"), "b": ("bool",),
         "u": ("uint8", "uint16", "uint32", "uint64")}
LETTERS = {"all": "fciub", "numeric": "fciu", "real": "fiu", "real floating": "f",
           "floating": "fc", "integer": "iu", "boolean": "b",
           "integer or boolean": "iub"}
#: Functions of complex numbers, or that the oracle has for these only.
OF_COMPLEX = ("real", "imag")
#: The second argument is not 0, or not negative.
DIVIDING, COUNTING = ("divide", "floor_divide", "remainder"), (
    "bitwise_left_shift", "bitwise_right_shift", "pow")


def array(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between -3 and 3, or between -4 and 4, or from 0 on."""
    rng, kind = np.random.default_rng((seed, *shape)), np.dtype(dtype).kind
    if kind in "biu":
        low, high = {"b": (0, 2), "u": (0, 5), "i": (-4, 5)}[kind]
        return rng.integers(low, high, shape).astype(dtype)
    made = rng.uniform(-3, 3, shape)
    return np.asarray(made + 1j*rng.uniform(-3, 3, shape)
                      if kind == "c" else made).astype(dtype)


def dtypes(category: str) -> list[str]:
    """The dtypes of a category of the standard."""
    return [dtype for letter in LETTERS[category] for dtype in KINDS[letter]]


def _unary(name: str, dtype: str) -> list[Case]:
    return [Case(name, (array(dtype, *shape),), {})
            for shape in ((2, 3), (), (0, 3))]


def _binary(name: str, dtype: str) -> list[Case]:
    kind = np.dtype(dtype).kind
    a, b = array(dtype, 2, 3), array(dtype, 3, seed=1)
    if name in DIVIDING:
        b = np.where(b == 0, 1, b).astype(dtype)
    if name in COUNTING and kind in "iu":
        b = np.abs(b).astype(dtype)
    number = {"b": True, "i": 2, "u": 2, "f": 1.5, "c": 1.5}[kind]
    return [Case(name, pair, {}) for pair in (
        (a, b), (a[0, 0], b), (a, number), *([(number, b)] if name != "pow" else []))]


#: By name and dtype.
ELEMENTWISE: dict[str, list[Case]] = {
    f"{name} {dtype}": make(name, dtype)
    for rows, make in ((UNARY, _unary), (BINARY, _binary))
    for category, names in rows.items() for name in names.split()
    for dtype in dtypes(category) if name not in OF_COMPLEX or dtype[0] == "c"}

VALUES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 3.0])
#: The standard's special cases: signed zeros, infinities, NaN, in all pairs.
SPECIAL = {
    name: [Case(name, (VALUES,) if rows is UNARY else (VALUES[:, None], VALUES), {})]
    for rows in (UNARY, BINARY) for category, names in rows.items()
    for name in names.split()
    if "f" in LETTERS[category] and name not in OF_COMPLEX}

F, G = array("float64", 3, 4), array("float32", 2, 3, 4)
N, U = array("int64", 3, 4), array("uint8", 3, 4)
B, Z, V = array("bool", 3, 4), array("complex128", 3, 4), array("float64", 5)
EMPTY, ZERO = array("float64", 0, 3), array("float64")
NANS = np.array([1.0, np.nan, np.nan, 0.0, -0.0, 1.0])
ALL = (F, G, N, U, B, Z, V, EMPTY)
REAL, NUMERIC = (F, G, N, U, V), (F, G, N, U, V, Z, EMPTY)
SQUARE = array("float64", 4, 4) + 4*np.eye(4)
STACK, TALL = np.stack([SQUARE, SQUARE.T @ SQUARE]), array("float64", 5, 3)
SYMMETRIC = SQUARE @ SQUARE.T


def _each(name: str, arrays: Any, *options: dict[str, Any]) -> list[Case]:
    """One array at a time, with each set of keywords."""
    return [Case(name, (x,), given) for x in arrays for given in options or ({},)]


def _axes(name: str, arrays: Any, **others: Any) -> list[Case]:
    options = ({"axis": axis, "keepdims": keepdims, **others}
               for axis in (None, 0, -1) for keepdims in (False, True))
    return [*_each(name, arrays, *options), Case(name, (ZERO,), others)]


def _moved() -> list[Case]:
    found = []
    for x in (F, G, B, EMPTY):
        found += [
            Case("broadcast_to", (x, (2, *x.shape)), {}), Case("flip", (x,), {}),
            Case("broadcast_arrays", (x, x[..., :1]), {}),
            Case("concat", ([x, x],), {"axis": -1}), Case("concat", ([x],), {
                "axis": None}), Case("stack", ([x, x],), {"axis": -1}),
            Case("expand_dims", (x,), {"axis": 1}), Case("flip", (x,), {"axis": 0}),
            Case("moveaxis", (x, 0, -1), {}), Case("moveaxis", (x, (0, 1), (1, 0)), {}),
            Case("matrix_transpose", (x,), {}), Case("tril", (x,), {"k": -1}),
            Case("triu", (x,), {"k": 1}), Case("repeat", (x, 2), {"axis": 0}),
            Case("permute_dims", (x, tuple(range(x.ndim))[::-1]), {}),
            Case("repeat", (x, 2), {}), Case("reshape", (x, x.shape[::-1]), {}),
            Case("roll", (x, 1), {}), Case("roll", (x, -1), {"axis": 0}),
            Case("squeeze", (x[..., None], -1), {}), Case("tile", (x, (2, 1, 2)), {}),
            Case("unstack", (x,), {})]
    return [*found, Case("repeat", (V, np.array([1, 2, 0, 1, 3])), {}),
            Case("meshgrid", (V, V[:3]), {}), Case("meshgrid", (V,), {}),
            Case("meshgrid", (V, V[:3], V), {"indexing": "ij"}),
            Case("reshape", (F, (4, 3)), {"copy": True})]


def _made() -> list[Case]:
    f32, i16 = np.dtype("float32"), np.dtype("int16")
    found = [Case(name, (shape,), {"dtype": dtype}) for name in ("zeros", "ones")
             for shape in ((), 3, (2, 3), (0,)) for dtype in (None, i16)]
    found += [Case("full", ((2, 3), value), {}) for value in (1, 2.5, True, 1j)]
    found += [Case(name, (x,), given) for name in ("zeros_like", "ones_like")
              for x in ALL for given in ({}, {"dtype": f32})]
    found += [Case("arange", args, {}) for args in (
        (5,), (1, 7, 2), (0.0, 1.0, 0.3), (5, 0, -1), (3, 1))]
    found += [Case("linspace", (0, 2.0, 5), given) for given in (
        {}, {"endpoint": False}, {"dtype": f32})]
    found += [Case("eye", (3,), {}), Case("eye", (3, 4), {"k": 1, "dtype": i16}),
              Case("full_like", (F, 3), {}), Case("full_like", (F, 3), {"dtype": f32})]
    return [*found, *(Case("astype", (x, np.dtype(dtype)), {}) for x in ALL
                      for dtype in ("float32", "int64", "bool", "complex64")
                      if x.dtype.kind != "c" or dtype == "complex64")]


def _products() -> list[Case]:
    pairs = ((F, F.T), (N, N.T), (Z, Z.T), (V, V), (F.T, V[:3]), (G, G.swapaxes(1, 2)),
             (EMPTY, array("float64", 3, 2)), (V, array("float64", 5, 2)))
    return [
        *(Case("matmul", pair, {}) for pair in pairs),
        Case("tensordot", (F, F.T), {"axes": 1}), Case("tensordot", (N, N), {}),
        Case("tensordot", (F, V), {"axes": 0}),
        Case("tensordot", (F, F), {"axes": ((0, 1), (0, 1))}),
        *(Case("vecdot", (x, x), {}) for x in (F, Z, N, U, N.astype("int8"))),
        Case("vecdot", (F, F), {"axis": -2})]


def _algebra() -> list[Case]:
    found = [Case(f"linalg.{name}", (x,), {}) for name in
             ("det", "inv", "slogdet", "diagonal", "trace") for x in (SQUARE, STACK)]
    found += [Case("linalg.matrix_power", (x, n), {}) for x in (SQUARE, STACK)
              for n in (0, 3, -2)]
    found += [Case("linalg.solve", (x, SQUARE[0]), {}) for x in (SQUARE, STACK)]
    found += [Case("linalg.cholesky", (SYMMETRIC,), {"upper": upper})
              for upper in (False, True)]
    found += [Case(f"linalg.{name}", (SYMMETRIC,), {}) for name in ("eigh", "eigvalsh")]
    for x in (SQUARE, TALL, TALL.T, STACK):
        found += [Case(f"linalg.{name}", (x,), given) for name, given in (
            ("matrix_rank", {}), ("matrix_rank", {"rtol": 1e-3}), ("pinv", {}),
            ("pinv", {"rtol": 1e-3}), ("svdvals", {}), ("qr", {}),
            ("qr", {"mode": "complete"}), ("svd", {}), ("svd", {
                "full_matrices": False}), ("vector_norm", {"axis": -1, "ord": 3}),
            ("vector_norm", {}), ("vector_norm", {"ord": np.inf, "keepdims": True}))]
        found += [Case("linalg.matrix_norm", (x,), {"ord": ord}) for ord in
                  ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]
    for x in (EMPTY, np.ones((2, 0, 0)), np.ones((2, 3, 0))):
        found += [Case(f"linalg.{name}", (x,), {}) for name in
                  ("pinv", "svdvals", "qr", "svd", "matrix_norm", "vector_norm")]
        found += [Case("linalg.matrix_norm", (x,), {"ord": ord}) for ord in
                  ("nuc", 1, 2, np.inf)]
        found += [Case("linalg.vector_norm", (x,), {"ord": np.inf, "axis": axis})
                  for axis in (None, 0)]
    return [*found, Case("linalg.cross", (TALL, TALL[::-1]), {}),
            Case("linalg.outer", (V, V[:2]), {}), Case("linalg.vecdot", (F, F), {}),
            Case("linalg.trace", (U[:, :3],), {"dtype": np.dtype("int64")}),
            Case("linalg.matrix_transpose", (G,), {}),
            Case("linalg.diagonal", (G,), {"offset": 1}),
            Case("linalg.tensordot", (F, F.T), {"axes": 1})]


def _transforms() -> list[Case]:
    one, many = {"n": 6, "axis": 0, "norm": "ortho"}, {"s": (4, 4), "axes": (0, 1)}
    return [
        *(Case(f"fft.{name}", (x,), given) for name, x, options in (
            ("fft", Z, one), ("ifft", Z, one), ("irfft", Z, one), ("hfft", Z, one),
            ("fftn", Z, many), ("ifftn", Z, many), ("irfftn", Z, many),
            ("rfft", F, one), ("ihfft", F, one), ("rfftn", F, many),
            ("rfft", F.astype("float32"), one)) for given in ({}, options)),
        Case("fft.fftshift", (F,), {}), Case("fft.ifftshift", (F,), {"axes": 0}),
        Case("fft.fftfreq", (5,), {}), Case("fft.rfftfreq", (5,), {"d": 0.5})]


#: By the chapter of the standard.
OTHERS: dict[str, list[Case]] = {
    "utility": [*_axes("all", (F, B)), *_axes("any", (N, B)),
                *_each("diff", (F, N, Z), {}, {"n": 2}, {"axis": 0}),
                Case("diff", (F,), {"axis": 0, "prepend": F[:1], "append": F[:2]})],
    "searching": [
        *_axes("argmax", REAL), *_axes("argmin", REAL), *_axes("count_nonzero", (F, B)),
        *_each("nonzero", ALL),
        Case("searchsorted", (np.sort(V), F), {}),
        Case("searchsorted", (np.sort(V), F), {"side": "right"}),
        Case("searchsorted", (V, F), {"sorter": np.argsort(V)}),
        *(Case("where", (B, *pair), {}) for pair in (
            (F, G[0]), (N, U), (B, B), (Z, F), (F, 1.5), (2, F), (N, 3)))],
    "sorting": _each("sort", (*REAL, EMPTY), {}, {"axis": 0, "descending": True})
    + _each("argsort", (*REAL, EMPTY), {}, {"axis": 0, "descending": True}),
    "sets": [case for name in ("all", "counts", "inverse", "values")
             for case in _each(f"unique_{name}", (F, N, B, NANS, Z, ZERO))],
    "statistics": [
        *_axes("sum", NUMERIC), *_axes("prod", NUMERIC), *_axes("max", REAL),
        *_axes("min", REAL), *_axes("mean", (F, G, V, Z)),
        *_axes("std", (F, G), correction=0), *_axes("var", (F, G)),
        *_each("var", (F, G), {"axis": 0, "correction": 1.0}),
        Case("sum", (U,), {"dtype": np.dtype("float32")}),
        *(case for name in ("cumulative_sum", "cumulative_prod") for case in _each(
            name, (F, N, U, Z), {"axis": 0}, {"axis": 1, "include_initial": True})),
        Case("cumulative_sum", (V,), {})],
    "manipulation": _moved(),
    "indexing": [*(Case("take", (x, np.array([0, 1, -1])), {"axis": 0}) for x in ALL
                   if x.size), Case("take", (V, np.array([1, 0])), {}),
                 *(Case("take_along_axis", (x, np.zeros(x.shape, np.int64)), {})
                   for x in (F, N, B))],
    "clip": [Case("clip", (F, -1.0, 1.0), {}), Case("clip", (N, -1, 1), {}), Case(
        "clip", (F,), {"max": 0.5}), Case("clip", (F, F - 1, F + 1), {}),
        Case("clip", (G,), {"min": 0.0})],
    "creation": _made(), "products": _products(), "algebra": _algebra(),
    "transforms": _transforms(),
}
