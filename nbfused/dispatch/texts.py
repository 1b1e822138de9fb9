"""What backends compile, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Signature
from ..registry import registry
from ..specs import Map

__all__ = ["ptx_of"]


def ptx_of(spec: Map, dtypes: tuple[np.dtype, ...]) -> str:
    """The PTX of a Map over contiguous arrays of these dtypes.

    Raises
    ------
    CompileError
        The compiler is not installed; a device is not needed.
    """
    backend: Any = registry.made("cuda")
    outputs = spec.result_types(dtypes)
    codes = ("1",) * (len(dtypes) + len(outputs))
    return str(backend.ptx(spec, Signature(dtypes, outputs, (1,), codes)))
