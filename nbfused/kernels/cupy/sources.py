"""The text of elementwise kernels and of their derivatives."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.texts import compiled_text
from ...errors import KernelTypeError
from ...scalar.autodiff.differentiate import jvp, vjp
from ...scalar.ir.nodes import Function, drop_params, used_params
from ...scalar.printing.python import python_text
from ...specs import Map
from ...specs.vjp.functions import adding, pick
from .bodies import typed_text
from .parameters import ParameterInfo
from .prepared import implicit_kind

__all__ = ["check_kind", "kernel_source"]

_KINDS = ("primal", "vjp", "jvp", "numba", "ptx", "hip")


def kernel_source(function: Function, inputs: Sequence[ParameterInfo],
                  outputs: Sequence[ParameterInfo], dtypes: Sequence[np.dtype],
                  kind: str) -> str:
    """The text of a kernel.

    Parameters
    ----------
    function
        Of inputs, outputs, and what the body names besides.
    dtypes
        Of inputs, then outputs.
    kind : {"primal", "vjp", "jvp", "numba", "ptx", "hip"}
        As in `op.source.source`.
    """
    check_kind(kind)
    if kind == "numba":
        return _numba(function, dtypes, frozenset(
            p.name for p in (*inputs, *outputs) if p.raw))
    found = dict(zip((p.name for p in (*inputs, *outputs)), dtypes, strict=True))
    function = drop_params(function, used_params(function))
    arrays = tuple(p.name for p in (*inputs, *outputs)
                   if p.raw and p.name in function.params)
    active = {p.name for p in inputs if found[p.name].kind in "fV"}
    stored = {p.name for p in outputs if p.raw}
    results = len(function.results)
    match kind:
        case "primal":
            return python_text(function)
        case "vjp":
            wrt = tuple(p in active | stored for p in function.params)
            return python_text(vjp(adding(function), wrt, (True,) * results, False,
                                   arrays))
        case "jvp":
            wrt = tuple(p in active for p in function.params)
            return python_text(pick(jvp(function, wrt), range(results, 2 * results)))
        case _:
            return _compiled(kind, function, arrays, found, stored)


def check_kind(kind: Any) -> None:
    """`KernelTypeError` for no kind of text."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise KernelTypeError("'kind' must be 'primal', 'vjp', 'jvp', 'numba', 'ptx' "
                              f"or 'hip', got {kind!r}")


def _numba(function: Function, dtypes: Sequence[np.dtype],
           raw: frozenset[str]) -> str:
    body = textwrap.indent(typed_text(function, dtypes, raw), "    ")
    results = ", ".join(f"r{k}" for k in range(len(function.results)))
    return (f"def {function.name}({', '.join(function.params)}):\n{body}\n"
            f"    return {results}\n")


def _compiled(kind: str, function: Function, arrays: Sequence[str],
              dtypes: dict[str, np.dtype], stored: set[str]) -> str:
    kinds = tuple("scatter" if p in stored else "raw" if p in arrays else
                  "element" if p in dtypes else implicit_kind(p)
                  for p in function.params)
    shapes = tuple((0,) for k in kinds if k == "scatter")
    types = tuple(dtypes.get(p, np.dtype(np.int64))
                  for p, k in zip(function.params, kinds, strict=True)
                  if k not in ("scatter", "index", "size"))
    return compiled_text(kind, Map(function, kinds, shapes), types)
