"""Names by which generated text calls operations of the scalar language."""

from __future__ import annotations

from ...scalar.language.vocabulary import OPS
from ...scalar.printing.numba_operations import IN_VECTORS
from ...support.dtypes import DTYPES, HALVES
from ...support.llvm.division import DIVISION_CALLS

__all__ = ["BINARY", "CALLS", "FOUND", "FUNCTIONS", "VECTOR_DIVISIONS"]

#: Operations that `mathematics` defines, by dtype.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    dtype: tuple(name for name, op in OPS.items() if dtype in op.cpu)
    for dtype in ("float32", "float64")
}

#: What `idioms` finds; the vocabulary does not have it.
FOUND = ("erfc_of_half", "exp_of_product")

#: Those of two numbers.
BINARY = frozenset({"exp_of_product",
                    *(name for name, op in OPS.items() if op.arity == 2)})

#: Names of divisions of integers to those of their ways that vectors have.
VECTOR_DIVISIONS = {name: f"vector_{name}" for name in DIVISION_CALLS.values()}

#: ``(operation, dtype)`` to the name by which generated text calls it.
CALLS: dict[tuple[str, str], str] = {
    **{(op, dtype): f"{op}_f{dtype[5:]}"
       for dtype, ops in FUNCTIONS.items() for op in (*ops, *FOUND)},
    **{("atomic_add", t.dtype.name): f"atomic_add_{t.short}" for t in HALVES},
    **DIVISION_CALLS,
    **{(IN_VECTORS + op, dtype): VECTOR_DIVISIONS[name]
       for (op, dtype), name in DIVISION_CALLS.items()},
    # A branch of Numba's is three blocks, each variable of which it looks for in all.
    **{("select", name): "select" for name in DTYPES},
}
