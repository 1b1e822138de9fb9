"""Which of this package's functions stand for operations of the scalar language."""

from __future__ import annotations

from ..scalar.promotion import DTYPES

__all__ = ["BINARY", "CALLS", "FOUND", "FUNCTIONS"]

#: Operations that `math` defines, by dtype.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "float32": ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sinh", "cosh",
                "tanh", "sigmoid", "erf", "erfc", "pow", "hypot", "max", "min"),
    "float64": ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sinh", "cosh",
                "tanh", "sigmoid", "erf", "erfc", "max", "min"),
}

#: What `idioms` finds; the vocabulary does not have it.
FOUND = ("erfc_of_half", "exp_of_product")

#: Those of two numbers.
BINARY = frozenset({"pow", "hypot", "max", "min", "exp_of_product"})

#: ``(operation, dtype)`` to the name by which generated text calls it.
CALLS: dict[tuple[str, str], str] = {
    **{(op, dtype): f"{op}_f{dtype[5:]}"
       for dtype, ops in FUNCTIONS.items() for op in (*ops, *FOUND)},
    **{("atomic_add", name): f"atomic_add_{short}"
       for name, short in (("float16", "f16"), ("bfloat16", "bf16"))},
    # A branch of Numba's is three blocks, each variable of which it looks for in all.
    **{("select", name): "select" for name in DTYPES},
}
