"""What backends compile, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Signature
from ..registry import registry
from ..specs import Map

__all__ = ["ptx_of"]


def ptx_of(spec: Map, dtypes: tuple[np.dtype, ...]) -> str:
    """The PTX of a Map over contiguous arrays, and numbers, of these dtypes.

    Raw arrays have one axis.

    Raises
    ------
    CompileError
        The compiler is not installed; a device is not needed.
    """
    backend: Any = registry.made("cuda")
    outputs = spec.result_types(dtypes)
    kinds = [k for k in spec.kinds if k not in ("index", "size", "scatter", "scalar")]
    codes = (*("r1" if k == "raw" else "1" for k in kinds),
             *("1" for _ in spec.function.results),
             *("r1" for _ in spec.scatter_shapes))
    return str(backend.ptx(spec, Signature(dtypes, outputs, (1,), codes)))
