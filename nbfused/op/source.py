"""Readable text of generated functions."""

from __future__ import annotations

import numpy as np

from ..dispatch.texts import compiled_text
from ..errors import KernelTypeError
from ..scalar.autodiff.differentiate import jvp, vjp
from ..scalar.ir.nodes import Function, raw_params
from ..scalar.printing.numba import statements
from ..scalar.printing.python import python_text
from ..scalar.typing.types import specialize
from ..specs import Map
from ..specs.vjp.functions import pick

__all__ = ["source"]


def source(function: Function, kind: str = "primal", dtype: str = "float32") -> str:
    """Print a scalar function or its derivative as readable text.

    Parameters
    ----------
    kind : {"primal", "vjp", "jvp", "numba", "ptx", "hip"}
        ``"primal"`` is the function in the scalar language, with everything that it
        calls.  ``"vjp"`` takes cotangents of the results too and gives those of the
        parameters; ``"jvp"`` takes tangents and gives tangents: what ``f.defvjp`` and
        ``f.defjvp`` accept.  These three refer to ``nf`` and ``np``.  ``"numba"`` is
        what Numba compiles, with every value in its dtype; ``"ptx"`` is what becomes of
        it on CUDA, over arrays, and needs numba-cuda but no device.  ``"hip"`` is what
        hipcc compiles for ROCm, over arrays, with the lines of Python as comments.
    dtype : str
        The dtype of every parameter, for ``"numba"``, ``"ptx"`` and ``"hip"``.

    Raises
    ------
    CompileError
        ``"ptx"`` without numba-cuda.
    """
    arrays = raw_params(function)
    inputs = tuple(p not in arrays for p in function.params)
    count = len(function.results)
    match kind:
        case "primal":
            return python_text(function)
        case "vjp":
            return python_text(vjp(function, inputs, (True,) * count))
        case "jvp":
            return python_text(pick(jvp(function, inputs), range(count, 2 * count)))
        case "numba":
            return _typed(function, dtype)
        case "ptx" | "hip":
            count = len(function.params)
            spec = Map(function, ("element",) * count)
            return compiled_text(kind, spec, (np.dtype(dtype),) * count)
    raise KernelTypeError("'kind' must be 'primal', 'vjp', 'jvp', 'numba', 'ptx' or "
                          f"'hip', got {kind!r}")


def _typed(function: Function, dtype: str) -> str:
    typed = specialize(function, (np.dtype(dtype),) * len(function.params))
    results = [f"r{k}" for k in range(len(function.results))]
    lines = statements(typed, {p: p for p in function.params}, results)
    head = f"def {function.name}({', '.join(function.params)}):"
    return "\n".join([head, *(f"    {line}" for line in lines),
                      f"    return {', '.join(results)}", ""])
