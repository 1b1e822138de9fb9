"""The Python array API standard 2024.12, as a face of the table of NumPy's functions.

Code that asks an array for its namespace, as SciPy and scikit-learn do, runs on
Variables, with gradients.  Its arrays are Variables: `asarray`, `zeros` and so on give
Variables without gradient, as these have the operators of the standard on every device.

===================== ==================================================================
`adapted`             functions that differ from NumPy's of the same name
`creation`            arrays made of numbers, buffers and other arrays
`dtypes`              dtypes, promotion within a kind, limits
`face`                functions made of rows and of the table
`fft`                 the extension of Fourier transforms
`info`                the namespace's description of itself
`linalg`              the extension of linear algebra
`special`             special functions by SciPy's names
`special_derivatives` their derivatives, where SciPy computes them
`standard`            the functions of the standard, as rows
===================== ==================================================================
"""

from __future__ import annotations

import math as _math
import sys as _sys
from typing import Any

from ..numpy_functions.on_arrays import on_arrays as _on_arrays
from ..registry.operations import NAMESPACES as _NAMESPACES
from . import adapted as _adapted
from . import dtypes as _dtypes
from . import face as _face
from . import fft, linalg, special
from . import standard as _standard
from .creation import (
    arange,
    asarray,
    astype,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .dtypes import can_cast, finfo, iinfo, isdtype, result_type
from .info import Info as _Info

__array_api_version__ = "2024.12"

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None


def __array_namespace_info__() -> _Info:
    """Describe the abilities, dtypes and devices of the namespace."""
    return _Info()


_functions = {
    **{name: make(name, category, _on_arrays(name))
       for rows, make in ((_standard.UNARY, _face.unary),
                          (_standard.BINARY, _face.binary))
       for category, names in rows.items() for name in names.split()},
    **_face.by_rows(_standard.OTHERS, _adapted.ADAPTED)}
globals().update(_functions, **_dtypes.DTYPES)

__all__ = [
    "arange", "asarray", "astype", "can_cast", "e", "empty", "empty_like", "eye", "fft",
    "finfo", "from_dlpack", "full", "full_like", "iinfo", "inf", "isdtype", "linalg",
    "linspace", "nan", "newaxis", "ones", "ones_like", "pi", "result_type", "special",
    "zeros", "zeros_like",
]
__all__ += sorted({*_functions, *_dtypes.DTYPES})


_NAMESPACES["array_api"] = _sys.modules[__name__]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"nbfused.array_api has no {name!r}: nor has the standard "
                         "2024.12; NumPy's functions take Variables")
