"""The functions of the Python array API standard 2024.12, as rows.

A row has the name, the parameters as the standard writes them, and the dtypes that it
defines the function for: those of `dtypes.CATEGORIES`.  What the function is, is
NumPy's of that name in the table `nbfused.numpy_functions`, but for those that
`adapted` and `linalg` adapt.
"""

from __future__ import annotations

__all__ = ["BINARY", "FFT", "LINALG", "OTHERS", "UNARY"]

#: Elementwise functions of one array, ``f(x, /)``.
UNARY = {
    "numeric": "abs conj imag isfinite isinf isnan negative positive real round sign "
               "square",
    "real": "ceil floor trunc",
    "real floating": "signbit",
    "floating": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p "
                "log2 reciprocal sin sinh sqrt tan tanh",
    "boolean": "logical_not",
    "integer or boolean": "bitwise_invert",
}

#: Elementwise functions of two arrays of one kind, or an array and a Python number.
BINARY = {
    "all": "equal not_equal",
    "numeric": "add multiply pow subtract",
    "real": "floor_divide greater greater_equal less less_equal maximum minimum "
            "remainder",
    "real floating": "atan2 copysign hypot logaddexp nextafter",
    "floating": "divide",
    "boolean": "logical_and logical_or logical_xor",
    "integer or boolean": "bitwise_and bitwise_or bitwise_xor",
    "integer": "bitwise_left_shift bitwise_right_shift",
}

_KEPT = "axis=None, keepdims=False"

#: All other functions: parameters by name, by the dtypes of the arrays.
OTHERS: dict[str, dict[str, str]] = {
    "unchecked": {"where": "condition, x1, x2, /"},  # numbers also
    "all": {
        "all": f"x, /, *, {_KEPT}", "any": f"x, /, *, {_KEPT}",
        "count_nonzero": f"x, /, *, {_KEPT}", "nonzero": "x, /",
        "broadcast_to": "x, /, shape", "broadcast_arrays": "*arrays",
        "concat": "arrays, /, *, axis=0", "stack": "arrays, /, *, axis=0",
        "expand_dims": "x, /, axis=0", "flip": "x, /, *, axis=None",
        "moveaxis": "x, source, destination, /", "permute_dims": "x, /, axes",
        "repeat": "x, repeats, /, *, axis=None",
        "reshape": "x, /, shape, *, copy=None", "roll": "x, /, shift, *, axis=None",
        "squeeze": "x, /, axis", "tile": "x, repetitions, /",
        "unstack": "x, /, *, axis=0", "take": "x, indices, /, *, axis=None",
        "take_along_axis": "x, indices, /, *, axis=-1",
        "unique_all": "x, /", "unique_counts": "x, /", "unique_inverse": "x, /",
        "unique_values": "x, /",
        "matrix_transpose": "x, /", "tril": "x, /, *, k=0", "triu": "x, /, *, k=0",
        "meshgrid": "*arrays, indexing='xy'",
    },
    "numeric": {
        "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
        "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
        "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
        "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
        "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
        "matmul": "x1, x2, /", "tensordot": "x1, x2, /, *, axes=2",
        "vecdot": "x1, x2, /, *, axis=-1",
    },
    "real": {
        "argmax": f"x, /, *, {_KEPT}", "argmin": f"x, /, *, {_KEPT}",
        "max": f"x, /, *, {_KEPT}", "min": f"x, /, *, {_KEPT}",
        "argsort": "x, /, *, axis=-1, descending=False, stable=True",
        "sort": "x, /, *, axis=-1, descending=False, stable=True",
        "searchsorted": "x1, x2, /, *, side='left', sorter=None",
        "clip": "x, /, min=None, max=None",
    },
    "real floating": {
        "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
        "var": "x, /, *, axis=None, correction=0.0, keepdims=False",
    },
    "floating": {"mean": f"x, /, *, {_KEPT}"},
}

#: The extension of linear algebra.
LINALG: dict[str, dict[str, str]] = {
    "all": {"diagonal": "x, /, *, offset=0", "matrix_transpose": "x, /"},
    "numeric": {
        "cross": "x1, x2, /, *, axis=-1", "matmul": "x1, x2, /", "outer": "x1, x2, /",
        "tensordot": "x1, x2, /, *, axes=2",
        "trace": "x, /, *, offset=0, dtype=None",
        "vecdot": "x1, x2, /, *, axis=-1",
    },
    "floating": {
        "cholesky": "x, /, *, upper=False", "det": "x, /", "eigh": "x, /",
        "eigvalsh": "x, /", "inv": "x, /",
        "matrix_norm": "x, /, *, keepdims=False, ord='fro'",
        "matrix_power": "x, n, /", "matrix_rank": "x, /, *, rtol=None",
        "pinv": "x, /, *, rtol=None", "qr": "x, /, *, mode='reduced'",
        "slogdet": "x, /", "solve": "x1, x2, /",
        "svd": "x, /, *, full_matrices=True", "svdvals": "x, /",
        "vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
    },
}

_ONE, _MANY = ("x, /, *, n=None, axis=-1, norm='backward'",
               "x, /, *, s=None, axes=None, norm='backward'")

#: The extension of Fourier transforms.
FFT: dict[str, dict[str, str]] = {
    "floating": {"fft": _ONE, "ifft": _ONE, "irfft": _ONE, "hfft": _ONE,
                 "fftn": _MANY, "ifftn": _MANY, "irfftn": _MANY,
                 "fftshift": "x, /, *, axes=None", "ifftshift": "x, /, *, axes=None"},
    "real floating": {"rfft": _ONE, "ihfft": _ONE, "rfftn": _MANY},
}
