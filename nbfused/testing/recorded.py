"""The set of kernels that the conformance suite would launch, by recording it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np

from ..autograd.gradcheck import gradients
from ..registry.backends import use_backend
from ..registry.operations import OPS
from ..rocm import RocmBackend
from ..rocm.build.ahead import RecordingDevice
from ..rocm.build.kernel import Kernel
from ..rocm.runtime.device import standing_in
from .conformance import Check, checks, inputs_of, place_on

__all__ = ["rocm_kernels"]

#: By how much arrays are larger, besides: other extents make other kernels.
_SCALES = (16, 128)
#: Elements of an array at most.
_LARGEST = 1 << 18


def rocm_kernels(device: RecordingDevice, dtypes: Sequence[str] | None = None,
                 ops: Sequence[str] | None = None, *, large: bool = True
                 ) -> list[Kernel]:
    """Record the kernels of ops, forward and backward, for `device`.

    Parameters
    ----------
    device
        Stands in for ``rocm:0``; no device is needed, and no compiler.
    dtypes
        Names, or ``["all"]``; by default those that the conformance suite samples.
    ops
        Names; by default all.
    large
        Also those for extents beyond the suite's.
    """
    chosen = checks(ops, thorough=dtypes is not None)
    if dtypes is not None and "all" not in dtypes:
        chosen = [c for c in chosen if c.dtype.name in dtypes]
    with (standing_in(device), use_backend(RocmBackend()), np.errstate(all="ignore"),
          warnings.catch_warnings(action="ignore")):
        for check in chosen:
            _tried(check, "rocm:0")
            for larger in _scaled(check) if large else ():
                _tried(_differentiated, larger)
    return list(device.kernels.values())


def _tried(run: Callable[..., object], *arguments: object) -> None:
    """Run a check for its launches only, and ignore its result."""
    # They fail their checks, and some options do not fit larger extents.
    with suppress(Exception):
        run(*arguments)


def _differentiated(check: Check) -> None:
    """Run an op forward and backward, without its slow reference."""
    op, options = OPS[check.op], OPS[check.op].cases[check.case].kwargs
    gradients(lambda *a: op(*a, **options), inputs_of(check, check.dtype),
              place=place_on("rocm:0"))


def _scaled(check: Check) -> Iterator[Check]:
    """The check on larger arrays, if its op has shapes of its own."""
    shapes = OPS[check.op].cases[check.case].shapes
    if not shapes or check.layout != "contiguous" or check.kind == "gradient":
        return
    for scale in _SCALES:
        larger = tuple(None if s is None else tuple(n*scale if n > 1 else n for n in s)
                       for s in shapes)
        if all(prod(s) <= _LARGEST for s in larger if s is not None):
            yield replace(check, shapes=larger)  # type: ignore[arg-type]  # None: absent
