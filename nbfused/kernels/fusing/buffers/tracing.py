"""Functions of arrays traced on stand-ins, as programs that run on buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ....autograd.compilers.derived import CHEAP
from ....errors import KernelTypeError
from ....specs.fusion.graph import Value
from ....support.trees import leaves_of
from ..plans.plan import ALIGN
from ..program import Opaque, Program
from .flat import stand_in
from .program import BufferProgram

if TYPE_CHECKING:
    from ..fused import Fused

__all__ = ["trace_on_buffers"]


def trace_on_buffers(fuse: type[Fused], function: Callable[..., Any], name: str,
                     leaves: Sequence[Any]) -> BufferProgram:
    """Trace a function for arrays of these shapes and dtypes.

    Parameters
    ----------
    fuse
        What traces.
    function
        Returns a tuple of arrays.
    leaves
        A number, or the shape and dtype of an array, for each argument.

    Raises
    ------
    KernelTypeError
        It does not run on buffers alone: it changes an argument, calls another
        library's function, returns what is no array, or reads what may change unseen.
    """
    given = [stand_in(*x) if isinstance(x, tuple) else x for x in leaves]
    results = _results(name, _checked(fuse(function, name), given))
    outputs = [stand_in(v.shape, _dtype(v)) for v in results]
    program = _checked(fuse(_Into(function, len(given)), name), [*given, *outputs])
    return BufferProgram(
        name, program, tuple([None if isinstance(x, tuple) else x for x in leaves]),
        tuple([x for x in leaves if isinstance(x, tuple)]),
        tuple([(v.shape, _dtype(v)) for v in results]),
        all(isinstance(one.spec, CHEAP) for one in program.launches),
        _scratch(program))


class _Into:
    """A function that stores its results into its last arguments."""

    __nbfused_constant__ = True  # to `nf.fuse`

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self.function, self.count = function, count

    def __call__(self, *given: Any) -> None:
        """Call it; what it stores into comes after the arguments."""
        made = self.function(*given[:self.count])
        for out, x in zip(given[self.count:], made, strict=True):
            out[...] = x


def _checked(fused: Fused, given: Sequence[Any]) -> Program:
    """The program of a function that reads nothing but its arguments."""
    program, unstable = fused.traced(*given)
    if unstable or any(isinstance(one.spec, Opaque) for one in program.launches):
        raise KernelTypeError(f"{fused.kernel_name} does more than to launch kernels "
                              "on its arguments")
    return program


def _results(name: str, program: Program) -> list[Value]:
    found = list(leaves_of(program.outputs, lambda x: isinstance(x, Value)))
    if program.stores or not all(isinstance(x, Value) and not x.by_value
                                 for x in found):
        raise KernelTypeError(f"{name} changes an argument, or returns what is no "
                              "array")
    if not any(one.spec.launches for one in program.launches):
        raise KernelTypeError(f"{name} launches nothing")
    return found


def _scratch(program: Program) -> int:
    """Bytes in which all arrays between the launches fit side by side."""
    sizes = [-(-prod(v.shape) * _dtype(v).itemsize // ALIGN) * ALIGN or ALIGN
             for one, direct in zip(program.launches, program.direct, strict=True)
             if one.spec.launches
             for v, own in zip(one.outputs, direct or (None,) * len(one.outputs),
                               strict=True) if own is None]
    return sum(sizes) + ALIGN if sizes else 0


def _dtype(array: Value) -> np.dtype:
    return np.dtype(cast("np.dtype", array.type))
