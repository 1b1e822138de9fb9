"""nbfused: fused, differentiable array kernels in Python.

One Python scalar function becomes a kernel for the CPU, for NVIDIA and for AMD GPUs,
its own derivative, the epilogue of a matrix product and the map of a reduction.
`nbfused.ops` holds the operations that come with it.
"""

from __future__ import annotations

import os as _os
import sys as _sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import config as _config
from .arrays.constructors import array, empty, full, zeros
from .registry.backends import backends, enable, register, synchronize, use_backend
from .registry.operations import NAMESPACES as _NAMESPACES
from .registry.operations import NUMPY as _NUMPY
from .registry.operations import OPS as _OPS
from .registry.plugins import warn_of_unknown as _warn_of_unknown
from .support.forks import LOCK as _LOCK
from .support.forks import when_imported as _when_imported
from .version import __version__

if TYPE_CHECKING:
    from . import testing
    from .arrays import DeviceArray, from_dlpack, to_numpy
    from .kernels.cupy.elementwise_kernel import ElementwiseKernel
    from .kernels.cupy.rawmodule import RawKernel, RawModule
    from .kernels.cupy.reduction_kernel import ReductionKernel
    from .kernels.fusing.calling.callback import callback
    from .kernels.fusing.fuse import fuse
    from .kernels.threads.rawkernel import rawkernel
    from .kernels.threads.views import DiffView, Dual, View
    from .op.derivative import derivative, tangent
    from .op.specialize import specialize
    from .public import *
    from .public import (
        Function,
        Variable,
        cache,
        checkpoint,
        contraction,
        custom_jvp,
        custom_vjp,
        elementwise,
        elementwise_grad,
        empty_like,
        fill,
        full_like,
        func,
        grad,
        hessian,
        hvp,
        index,
        jacfwd,
        jacobian,
        jacrev,
        jvp,
        linearize,
        literal,
        local,
        max_iters,
        no_grad,
        ones_like,
        ops,
        reduction,
        row,
        size,
        stage,
        stop_gradient,
        trace_launches,
        unroll,
        value_and_grad,
        vjp,
        vmap,
        zeros_like,
    )
    from .registry.report import show_config, versions

#: Public names whose modules are imported when they are first used: most programs
#: need few of them, and start sooner.
_LATER = {
    "DeviceArray": "arrays", "from_dlpack": "arrays", "to_numpy": "arrays",
    "DiffView": "kernels.threads.views", "Dual": "kernels.threads.views",
    "View": "kernels.threads.views", "fuse": "kernels.fusing.fuse",
    "callback": "kernels.fusing.calling.callback",
    "ElementwiseKernel": "kernels.cupy.elementwise_kernel",
    "RawKernel": "kernels.cupy.rawmodule", "RawModule": "kernels.cupy.rawmodule",
    "ReductionKernel": "kernels.cupy.reduction_kernel", "derivative": "op.derivative",
    "rawkernel": "kernels.threads.rawkernel", "show_config": "registry.report",
    "specialize": "op.specialize", "tangent": "op.derivative", "testing": "testing",
    "versions": "registry.report",
}

#: Parts of the package that are there without being imported.
_PARTS = {"array_api", "autograd", "cache", "dispatch", "distributed", "op", "ops",
          "scalar", "specs"}


def _import_public() -> None:
    """Import the names of `public`."""
    with _LOCK:
        public = import_module(".public", __name__)
        for name in public.__all__:  # but for what a program has put in their places
            globals().setdefault(name, getattr(public, name))


def __getattr__(name: str) -> Any:
    with _LOCK:
        return _later(name)


def _later(name: str) -> Any:
    """Import and return a public name or a part of the package."""
    if name in _PARTS:
        return import_module(f".{name}", __name__)
    if name in _LATER:
        module = import_module(f".{_LATER[name]}", __name__)
        globals()[name] = found = module if name == "testing" else getattr(module, name)
        return found
    if not name.startswith("__"):
        _import_public()
        if name in globals():
            return globals()[name]
    meant = "" if name.startswith("_") or not hasattr(import_module(
        ".ops", __name__), name) else f"; write nf.ops.{name}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}",
                         name=name,  # Python says what was meant
                         obj=None if meant else _sys.modules[__name__])


def __dir__() -> list[str]:
    """Public names, the scalar language and public modules: not what they import."""
    _import_public()
    special = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *import_module(".public", __name__).__all__, *_PARTS,
                   "arrays", "backend", "errors", *special})


def _fill_namespaces() -> None:
    _NAMESPACES["ops"] = import_module(".ops", __name__)
    _NAMESPACES["nbfused"] = _sys.modules[__name__]
    import_module(".numpy_functions.on_arrays", __name__)
    import_module(".array_api", __name__)


_OPS.load = _import_public
_NUMPY.load = lambda: import_module(".numpy_functions", __name__)
_NAMESPACES.load = _fill_namespaces
config: _config.Config = _config.config
enable(config.backend)
_when_imported("jax", lambda: import_module(
    ".autograd.compilers.jax.kernels", __name__).register_handlers())
_when_imported("torch", lambda: import_module(
    ".autograd.compilers.dynamo", __name__).prepare())
if _unknown := _config.unknown(_os.environ):
    _warn_of_unknown(_unknown)

__all__ = [
    "DeviceArray", "DiffView", "Dual", "ElementwiseKernel", "Function", "RawKernel",
    "RawModule", "ReductionKernel", "Variable", "View", "__version__", "array",
    "backends", "cache", "callback", "checkpoint", "config", "contraction",
    "custom_jvp", "custom_vjp", "derivative", "elementwise", "elementwise_grad",
    "empty",
    "empty_like", "fill", "from_dlpack", "full", "full_like", "func", "fuse", "grad",
    "hessian", "hvp", "index", "jacfwd", "jacobian", "jacrev", "jvp", "linearize",
    "literal", "local", "max_iters", "no_grad", "ones_like", "ops", "rawkernel",
    "reduction", "register", "row", "show_config", "size", "specialize", "stage",
    "stop_gradient", "synchronize", "tangent", "testing", "to_numpy", "trace_launches",
    "unroll", "use_backend", "value_and_grad", "versions", "vjp", "vmap", "zeros",
    "zeros_like",
]
