"""The text of kernels: the user's, their derivatives, and the compiled text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch.raw import Launchable, prepare
from ...dispatch.texts import COMPILED
from ...errors import KernelTypeError
from ...scalar.autodiff.differentiate import buffer_bytes
from ...scalar.autodiff.preferences import PREFERENCES, preferring
from ...scalar.printing.python import python_text
from ..cupy.sources import check_kind
from .recording.tapes import derivative_kernel, shared_dtypes
from .views import is_floating

if TYPE_CHECKING:
    from .rawkernel import ThreadKernel

__all__ = ["for_arguments", "kernel_source", "recorded_bytes"]

_DERIVATIVES = {"vjp": "bwd", "jvp": "fwd"}
#: Who compiles a text, if one backend does.
_OWNERS = {kind: f": nf.array(x, device={backend!r})"
           for kind, (backend, _) in COMPILED.items()}


def kernel_source(kernel: ThreadKernel, kind: str, compiled: Launchable) -> str:
    """The text of a kernel for the types that it was compiled for."""
    check_kind(kind)
    spec = compiled.spec
    if kind == "primal":
        return python_text(spec.function)
    if kind in _DERIVATIVES:
        derivative = getattr(kernel, _DERIVATIVES[kind])
        found = derivative.rule_spec(kind) if kernel.rules else \
            derivative.spec(spec, _wanted(compiled))
        return python_text(found.function)
    launcher: Any = compiled.launcher
    texts: dict[str, Any] = launcher.texts()
    if kind in texts:
        text: str = texts[kind]()
        return text
    name = compiled.place.backend.name
    known = ", ".join(map(repr, ("primal", *_DERIVATIVES, *texts)))
    raise KernelTypeError(
        f"{kernel.__name__}.source({kind!r}): the arguments are on the backend "
        f"{name!r}, which has the texts {known}; give arguments of a launch on a "
        f"device that has it{_OWNERS.get(kind, '')}")


def recorded_bytes(kernel: ThreadKernel, compiled: Launchable) -> dict[str, int]:
    """Bytes that loops of ``bwd`` record for each thread, by preference."""
    if "bwd" in kernel.rules:
        return dict.fromkeys(PREFERENCES, 0)
    spec, types = compiled.spec, compiled.signature.inputs
    wanted, found = _wanted(compiled), {}
    bars = [t for t, w in zip(types, wanted, strict=True) if w]
    for prefer in PREFERENCES:
        reverse = derivative_kernel(replace(spec, function=preferring(
            spec.function, prefer, every=True)), wanted, "bwd")
        known = dict(zip(spec.function.params, types, strict=True))
        known |= shared_dtypes(reverse.recorder.function) if reverse.recorder else {}
        tapes = [known[p] for p in (*reverse.tapes, *reverse.finals)]
        found[prefer] = buffer_bytes(reverse.spec.function, (*types, *bars, *tapes))
    return found


def _wanted(compiled: Launchable) -> tuple[bool, ...]:
    """A flag for each argument: it is a floating array."""
    return tuple(k == "array" and isinstance(t, np.dtype) and is_floating(t)
                 for k, t in zip(compiled.spec.kinds, compiled.signature.inputs,
                                 strict=True))


def for_arguments(kernel: ThreadKernel, args: tuple[Any, ...]) -> Launchable:
    """The kernel that a launch on these arguments would start."""
    flat = kernel.flatten(kernel.arguments(args, {}))
    return prepare(kernel.spec(flat), flat.values, flat.names)
