"""nbfused: fused, differentiable array kernels in Python.

One Python scalar function becomes a CPU kernel, a CUDA kernel, its own derivative, the
epilogue of a matrix product and the map of a reduction.  `nbfused.ops` holds the
operations that come with it.
"""

from __future__ import annotations

from . import cache, ops, testing
from . import config as _config
from .arrays import DeviceArray, array, empty, from_dlpack, full, to_numpy, zeros
from .autograd import (
    Function,
    Variable,
    checkpoint,
    custom_vjp,
    grad,
    jvp,
    no_grad,
    value_and_grad,
    vjp,
)
from .dispatch import trace_launches
from .kernels.fuse import fuse
from .kernels.rawkernel import rawkernel
from .kernels.views import DiffView, Dual, View
from .op import contraction, elementwise, func, index, reduction, row, size, stage
from .registry import backends, enable, register, synchronize, use_backend
from .scalar.language import *
from .scalar.threads import *
from .version import __version__

config = _config.config
enable(config.backend)

__all__ = [
    "DeviceArray", "DiffView", "Dual", "Function", "Variable", "View", "__version__",
    "array", "backends", "cache", "checkpoint", "config", "contraction", "custom_vjp",
    "elementwise", "empty", "from_dlpack", "full", "func", "fuse", "grad", "index", "jvp",
    "no_grad", "ops", "rawkernel", "reduction", "register", "row", "size", "stage",
    "synchronize", "testing", "to_numpy", "trace_launches", "use_backend",
    "value_and_grad", "vjp", "zeros",
]
