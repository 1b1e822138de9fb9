"""Readable text of what runs."""

from __future__ import annotations

import numpy as np

from ..errors import KernelTypeError
from ..scalar.differentiate import jvp, vjp
from ..scalar.ir import Function
from ..scalar.print_numba import statements
from ..scalar.types import specialize

__all__ = ["source"]


def source(function: Function, kind: str = "primal", dtype: str = "float32") -> str:
    """The text of a scalar function or of its derivative.

    Parameters
    ----------
    kind : {"primal", "numba", "vjp", "jvp"}
        ``"numba"`` and ``"primal"`` are the same text: what Numba compiles, with every
        value in its dtype.
    dtype : str
        The dtype of every parameter.
    """
    inputs = (True,) * len(function.params)
    match kind:
        case "primal" | "numba":
            pass
        case "vjp":
            function = vjp(function, inputs, (True,) * len(function.results))
        case "jvp":
            function = jvp(function, inputs)
        case _:
            raise KernelTypeError("'kind' must be 'primal', 'numba', 'vjp' or "
                                  f"'jvp', got {kind!r}")
    typed = specialize(function, (np.dtype(dtype),) * len(function.params))
    results = [f"r{k}" for k in range(len(function.results))]
    lines = statements(typed, {p: p for p in function.params}, results)
    head = f"def {function.name}({', '.join(function.params)}):"
    return "\n".join([head, *(f"    {line}" for line in lines),
                      f"    return {', '.join(results)}", ""])
