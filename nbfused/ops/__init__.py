"""Fused, differentiable operations on arrays of any library.

=============== ====================================================================
`activations`   activation functions
`advanced_indexing` index arrays, lists and masks, beside basic indices
`arithmetic`    arithmetic, as in NumPy
`assignment`    arrays with other numbers at an index
`checks`        range checks of element values, on the cpu only
`clipping`      clipping of gradients by the norm of all of them
`comparison`    comparisons, logic, selection
`filling`       arrays shaped like another one, and arrays filled with one number
`gathers`       elements and rows at places that arrays of integers say
`indexing`      an index of any kind: basic ones are views, arrays gathers
`losses`        loss functions along the last axis
`math`          elementary functions, as in NumPy and SciPy
`matmul`        matrix products with bias, epilogue and permuted store
`normalization` softmax and normalisations along one axis, in one launch each
`norms`         vector norms over axes
`optimizers`    optimiser steps, in place and in one launch each, of trees too
`power`         `power`, with NumPy's rules for integers
`random`        random masks by a counter-based generator: equal on every backend
`reductions`    reductions over axes, with NumPy's keywords, accumulators and errors
`shapes`        changes of shape, and movement of data between arrays
=============== ====================================================================

Every other function of NumPy that `nbfused.numpy_functions` has is here by its name,
with NumPy's parameters: ``nf.ops.einsum``, ``nf.ops.sort``, ``nf.ops.linalg.inv``.
"""

import types as _types
from typing import Any as _Any

from .activations import *
from .arithmetic import *
from .assignment import *
from .clipping import *
from .comparison import *
from .filling import *
from .gathers import *
from .indexing import *
from .losses import *
from .math import *
from .matmul import *
from .normalization import *
from .norms import *
from .optimizers import *
from .power import *
from .random import *
from .reductions import *
from .shapes import *

# No modules: ``from nbfused.ops import *`` would hide Python's `math` and `random`.
__all__ = [name for name, found in [*globals().items()]
           if not name.startswith("_") and not isinstance(found, _types.ModuleType)]


class _Numpy:
    """Functions of a module of NumPy, ``nf.ops.linalg`` or ``nf.ops.fft``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> _Any:
        from ..numpy_functions.on_arrays import on_arrays  # when one is asked for

        try:
            found = self.__dict__[name] = on_arrays(self._prefix + name)
            return found
        except KeyError:
            raise AttributeError(
                f"nbfused.ops has no {self._prefix + name!r}, and the table of NumPy's "
                "functions neither", name=name) from None


linalg, fft, _rest = _Numpy("linalg."), _Numpy("fft."), _Numpy("")


def __getattr__(name: str) -> _Any:
    if name.startswith("_"):
        raise AttributeError(f"nbfused.ops has no {name!r}")
    return getattr(_rest, name)
