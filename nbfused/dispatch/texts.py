"""Access to the text that backends compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Signature
from ..registry.backends import registry
from ..specs import Map

__all__ = ["COMPILED", "compiled_text"]

#: Kinds of text: the backend that makes it, and its method.
COMPILED = {"ptx": ("cuda", "ptx"), "hip": ("rocm", "source")}


def compiled_text(kind: str, spec: Map, dtypes: tuple[np.dtype, ...]) -> str:
    """The text compiled for a Map over contiguous arrays of these dtypes.

    Raw arrays have one axis.

    Parameters
    ----------
    kind : {"ptx", "hip"}
        For CUDA or for ROCm; neither device is needed.

    Raises
    ------
    CompileError
        The compiler is not installed; ``"hip"`` needs none.
    """
    name, method = COMPILED[kind]
    backend: Any = registry.instance(name)
    outputs = spec.result_types(dtypes)
    kinds = [k for k in spec.kinds if k not in ("index", "size", "scatter", "scalar")]
    codes = (*("r1" if k == "raw" else "1" for k in kinds),
             *("1" for _ in spec.function.results),
             *("r1" for _ in spec.scatter_shapes))
    signature = Signature(dtypes, outputs, (1,), codes)
    return str(getattr(backend, method)(spec, signature))
