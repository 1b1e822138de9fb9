"""The text of kernels: what the user wrote, its derivatives, what was compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dispatch.raw import Launchable, prepare
from ..errors import KernelTypeError
from ..scalar.print_python import python_text
from .views import is_floating

if TYPE_CHECKING:
    from .rawkernel import ThreadKernel

__all__ = ["for_arguments", "kernel_source"]

_DERIVATIVES = {"vjp": "bwd", "jvp": "fwd"}
_COMPILED = ("numba", "ptx", "hip")


def kernel_source(kernel: ThreadKernel, kind: str, compiled: Launchable) -> str:
    """The text of a kernel for the types that it was compiled for."""
    spec = compiled.spec
    if kind == "primal":
        return python_text(spec.function)
    if kind in _DERIVATIVES:
        wanted = tuple(k == "array" and isinstance(t, np.dtype) and is_floating(t)
                       for k, t in zip(spec.kinds, compiled.signature.inputs,
                                       strict=True))
        derivative = getattr(kernel, _DERIVATIVES[kind])
        return python_text(derivative.spec(spec, wanted).function)
    launcher: Any = compiled.launcher
    texts: dict[str, Any] = launcher.texts()
    if kind in texts:
        text: str = texts[kind]()
        return text
    if kind in _COMPILED:
        raise KernelTypeError(f"{kernel.__name__}.source({kind!r}): the backend "
                              f"{compiled.place.backend.name!r} has no such text")
    raise KernelTypeError("'kind' must be 'primal', 'vjp', 'jvp', 'numba', 'ptx' or "
                          f"'hip', got {kind!r}")


def for_arguments(kernel: ThreadKernel, args: tuple[Any, ...]) -> Launchable:
    """The kernel that a launch on these arguments would start."""
    taken = kernel.take(kernel.arguments(args, {}))
    return prepare(kernel.spec(taken), taken.values, taken.names)
