"""A call of each of NumPy's functions, and values for each of its keywords."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CALLS", "NONE", "VALUES", "call_of"]

X = np.array([[1.5, -2.0, 0.5], [4.0, 0.25, 3.0]])
Y = np.array([[0.5, 1.0, -0.25], [2.0, 3.0, 0.75]])
V, W = np.array([1.0, 3.0, 2.0]), np.array([0.5, -1.0, 4.0])
N = np.array([[3, 1, 2], [7, 0, 5]])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
CUBE = np.arange(24.0).reshape(2, 3, 4) / 7
MASK = np.array([[True, False, True], [False, True, True]])
SIXTH = np.eye(6) + 0.1


def _all(names: str, *args: Any) -> dict[str, tuple[Any, ...]]:
    return dict.fromkeys(names.split(), args)


#: Positional arguments; of other functions of one parameter, or of two, `X` and `Y`.
CALLS: dict[str, tuple[Any, ...]] = {
    **_all("bincount", N[0]), **_all("packbits", MASK), **_all("squeeze", X[None]),
    **_all("diagflat fft.hfft poly polyder polyint trim_zeros vander ix_ unwrap", V),
    **_all("convolve correlate inner kron outer vdot linalg.outer cross linalg.cross "
           "polyadd polymul polysub histogram2d linalg.vecdot meshgrid", V, W),
    **_all("intersect1d setdiff1d setxor1d union1d isin", np.array([7, 2, 5, 3]),
           np.array([3, 7, 1])), **_all("gcd lcm left_shift right_shift "
           "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift",
           N, N % 4),
    **_all("bitwise_count bitwise_not bitwise_invert invert", N),
    **_all("linalg.cholesky linalg.cond linalg.det linalg.eig linalg.eigh "
           "linalg.eigvals linalg.eigvalsh linalg.inv linalg.matrix_norm trace diag "
           "linalg.matrix_rank linalg.matrix_transpose linalg.pinv linalg.qr "
           "linalg.slogdet linalg.svd linalg.svdvals linalg.trace diag_indices_from "
           "tril_indices_from triu_indices_from", S),
    **_all("linalg.solve linalg.lstsq dot linalg.matmul", S, X.T),
    **_all("angle imag real sort_complex real_if_close fft.irfft fft.irfft2 "
           "fft.irfftn", X + 1j*Y),
    **_all("array_split vsplit tile repeat", X, 2),
    **_all("swapaxes moveaxis", X, 0, 1), **_all("diagonal", CUBE),
    **_all("cumulative_prod cumulative_sum", V), **_all("common_type", X, Y),
    **_all("block", [X, Y]), **_all(
        "column_stack concat concatenate dstack hstack stack vstack", (X, Y)),
    **_all("percentile nanpercentile", X, 40.0), **_all("quantile nanquantile", X, 0.4),
    **_all("partition argpartition roll", X, 1), **_all("unstack", CUBE),
    **_all("dsplit", CUBE, 2), **_all("rollaxis", CUBE, 2),
    **_all("nan_to_num", np.where(MASK, X, np.nan)), **_all("histogramdd", X.T),
    **_all("arctanh atanh arcsin arccos asin acos", X / 5),
    **_all("arccosh acosh log log2 log10 sqrt log1p", abs(X) + 1),
    **_all("pow power float_power", abs(X), Y), **_all("ldexp", X, N),
    **_all("matmul", X, S), **_all("matvec", S, V), **_all("vecmat", V, S),
    **_all("linspace geomspace logspace", V, V + 1, 5),
    **_all("clip", X, -1.0, 2.0), **_all("copyto", X, Y), **_all("einsum", "ij,kj->ik",
                                                                 X, Y),
    "apply_along_axis": (np.sort, 0, X), "apply_over_axes": (np.sum, X, [0]),
    "astype": (X, np.float32), "broadcast_arrays": (X, V),
    "broadcast_to": (V, (2, 3)), "can_cast": (X, np.float32),
    "choose": (MASK.astype(int), [X, Y]), "compress": ([True, False], X),
    "delete": (X, [1], 1), "digitize": (X, np.sort(V)), "expand_dims": (X, 0),
    "extract": (MASK, X), "fill_diagonal": (S, 1.0), "full_like": (X, 2.0),
    "hsplit": (X, [1]), "insert": (X, 1, 9.0, 0), "interp": (X, np.sort(V), W),
    "lexsort": ((V, W),), "linalg.matrix_power": (S, 2),
    "linalg.multi_dot": ([S, S],),
    "linalg.tensorinv": (SIXTH.reshape(6, 2, 3), 1),
    "linalg.tensorsolve": (SIXTH.reshape(2, 3, 2, 3), X), "pad": (X, 1),
    "permute_dims": (X, (1, 0)), "piecewise": (X, [X < 0, X > 1], [0.5, 2.0]),
    "place": (X, MASK, V), "polyval": (V, X), "put": (X, [0, 4], W[:2]),
    "put_along_axis": (X, N[:, :1] % 3, 5.0, 1), "putmask": (X, MASK, Y),
    "ravel_multi_index": ((N[0] % 2, N[1] % 3), (2, 3)), "reshape": (X, (3, 2)),
    "resize": (X, (2, 4)), "result_type": (X, N), "searchsorted": (np.sort(V), X),
    "select": ([MASK, X > 2], [X, Y]), "split": (X, 3, 1), "take": (X, [1, 0], 1),
    "take_along_axis": (X, N % 3, 1), "tensordot": (X, Y.T, 1),
    "linalg.tensordot": (S, S), "unpackbits": (N.astype(np.uint8),),
    "unravel_index": (N % 6, (2, 3)), "where": (MASK, X, Y),
}
#: Values of keywords; those with a function's name for that one alone.
VALUES: dict[str, tuple[Any, ...]] = {
    "out": ("made",), "signature": ("loop",),
    "dtype": (np.float32, np.float64, np.int64, np.bool_, np.complex128, "loop"),
    "where": (MASK, True), "order": ("F", "C", "K"), "subok": (True, False),
    "casting": ("same_kind", "unsafe", "no"), "axis": (0, -1, None, (0,)),
    "keepdims": (True, False), "axes": ((1, 0),), "norm": ("ortho", "forward"),
    "initial": (0.5, np.float64(2.0)), "weights": (abs(Y),), "mode": ("wrap", "clip"),
    "k": (1, -1), "s": ((2, 2),), "n": (2,), "device": (None, "cpu"),
    "overwrite_input": (False, True), "kind": ("stable", None), "ddof": (1, 0.5),
    "rtol": (0.1,), "equal_nan": (True,), "copy": (True, False), "offset": (1, -1),
    "shape": (None, (2, 2)), "bins": (4,), "range": ((0.0, 3.0),),
    "assume_unique": (True, False), "method": (
        "lower", "higher", "nearest", "midpoint", "linear", "hazen", "weibull",
        "median_unbiased", "normal_unbiased", "interpolated_inverted_cdf",
        "inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
    "mean": (np.float64(1.0),), "correction": (1, 0), "endpoint": (False,),
    "density": (True,), "ord": (1, np.inf), "hermitian": (True,), "atol": (0.1,),
    "stable": (True, False), "decimals": (1, -1), "y": (Y,), "rowvar": (False,),
    "include_initial": (True,), "axis1": (2, -1), "axis2": (2,), "right": (True,),
    "period": (1.5,), "UPLO": ("U", "L"), "rcond": (1e-3, None), "tol": (1e-3,),
    "bitorder": ("little", "big"), "m": (2,), "deg": (True,), "returned": (True,),
    "minlength": (20,), "min": (-0.5,), "max": (0.5,), "bias": (True,),
    "fweights": (np.array([1, 2, 1]),), "aweights": (V,), "axisa": (0, -1),
    "axisb": (0,), "axisc": (0,), "prepend": (0.5,), "append": (Y[:, :1],),
    "to_end": (9.0,), "to_begin": (9.0,), "optimize": (True, False), "wrap": (True,),
    "edge_order": (2, 1), "left": (-1.0,), "return_indices": (True,),
    "invert": (True,), "upper": (True, False), "p": (2, "fro"),
    "full_matrices": (False,), "compute_uv": (False,), "retstep": (True,),
    "base": (2.0,), "sparse": (True,), "indexing": ("ij",), "nan": (1.0,),
    "posinf": (9.0,), "neginf": (-9.0,), "start": (1,), "side": ("right",),
    "sorter": (np.array([1, 0, 2]),), "default": (5.0,),
    "x": (np.array([0.0, 1.0, 3.0]),), "dx": (0.5,), "trim": ("f", "b"),
    "return_index": (True,), "return_inverse": (True,), "return_counts": (True,),
    "sorted": (True,), "count": (4,), "discont": (4.0,), "N": (4,),
    "increasing": (True,),
    **dict.fromkeys(("convolve mode", "correlate mode"), ("same", "valid")),
    **dict.fromkeys(("argpartition kind", "partition kind"), ("introselect",)),
    **dict.fromkeys(("histogram2d range", "histogramdd range"), (((0, 2), (0, 3)),)),
    **dict.fromkeys(("histogram2d weights", "histogramdd weights", "bincount weights"),
                    (V,)),
    **dict.fromkeys(("matmul axes", "matvec axes", "vecdot axes", "vecmat axes"), (
        [(0, 1), (0, 1), (0, 1)], [(0, 1), 0, 0], [0, 0, ()], [0, (0, 1), 0])),
    "linalg.qr mode": ("r", "complete"), "trace axis1": (-1,), "trace axis2": (-2,),
}
#: Keywords without a value that NumPy takes for such arguments.
NONE: dict[str, str] = {
    **dict.fromkeys(("argpartition order", "argsort order", "partition order",
                     "sort order"), "it names fields of structures"),
    **dict.fromkeys(("clip min", "clip max"), "they are a_min and a_max, given"),
    **dict.fromkeys(("matmul axis", "matvec axis", "vecmat axis"),
                    "it is of sums of vectors"),
    **dict.fromkeys(("nanpercentile weights", "nanquantile weights",
                     "percentile weights", "quantile weights"), "of another method"),
    "trace axis1": "axis2 is the other one", "trace axis2": "axis1 is the other one",
    "matmul keepdims": "it is of sums of vectors", "matvec keepdims": "likewise",
    "vecmat keepdims": "likewise", "frexp dtype": "its results have two",
}


def call_of(name: str, operands: int) -> tuple[Any, ...]:
    """Positional arguments of a function, which has as many operands."""
    return CALLS[name] if name in CALLS else (X, Y)[:operands]
