"""Kernels that have derivatives: functions of threads, and these with tangents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...arrays import describe
from ...scalar.ir.nodes import rename
from ...specs import Raw
from ...support.forks import cached_property
from .arguments import FlatArguments, Leaf
from .derivatives import Derivative
from .launching import Launching, Options
from .recording.places import played_back
from .recording.recorder import record_tapes
from .recording.stale import Contents
from .recording.tapes import Recorded, derivative_kernel
from .second import SecondDerivative

if TYPE_CHECKING:
    from .taping.leaves import Layout

__all__ = ["DifferentiableKernel", "Linearized", "tangent_of"]


class DifferentiableKernel(Launching):
    """A kernel that has derivatives, which are kernels.

    Attributes
    ----------
    differentiable
        Whether floating arrays without an annotation have a derivative.
    rules
        The hand-written derivatives, kernels themselves: ``"bwd"``, ``"fwd"``.
    last
        What the last launch found and left in arrays, under ``NBFUSED_DEBUG=1``.
    """

    differentiable: bool = True
    rules: Mapping[str, Any] = {}
    annotations: dict[str, Any] = {}  # noqa: RUF012 - of no parameter
    last: tuple[Contents, Contents] = {}, {}

    def flatten(self, arguments: Mapping[str, Any],
                check: bool = True) -> FlatArguments:
        """Take arguments apart into arrays and numbers."""
        raise NotImplementedError

    def launched(self, flat: FlatArguments, options: Options) -> tuple[Raw, Options]:
        """The kernel of a launch, and the options without bytes that it has taken."""
        raise NotImplementedError

    @cached_property
    def fwd(self) -> Derivative:
        """Forward mode: the kernel, and tangents of what it stores."""
        return Derivative(self, "fwd")

    @cached_property
    def bwd(self) -> Derivative:
        """Reverse mode: cotangents of what the kernel loads."""
        return Derivative(self, "bwd")

    @cached_property
    def second(self) -> SecondDerivative:
        """The change of ``bwd`` along a direction."""
        return SecondDerivative(self)


class Linearized(DifferentiableKernel):
    """``fwd`` of a kernel as a kernel that has derivatives itself.

    Its second derivatives are the third ones of the kernel, and so on.

    Parameters
    ----------
    kernel
        What is differentiated along the tangents.
    layout
        Of its arguments.
    moving
        The leaves that have tangents, further arguments: ``x.tangent``.
    arguments, options
        Of the launch.
    """

    def __init__(self, kernel: DifferentiableKernel, layout: Layout,
                 moving: Collection[str], arguments: Mapping[str, Any],
                 options: Options) -> None:
        super().__init__(f"{kernel.__name__}.fwd", kernel.signature)
        self.kernel, self.layout, self.places = kernel, layout, options.places
        flat = kernel.flatten(layout.arguments(arguments), False)
        #: In the order of the kernel's arguments.
        self.moving: tuple[str, ...] = tuple(
            x.name for x in flat.leaves if x.name in moving)
        found, flat, options = self._derived(flat, options)
        #: What tells which values won, which has no derivative.
        self.recorded: Sequence[Leaf] = record_tapes(found, flat, options)

    def _derived(self, flat: FlatArguments,
                 options: Options) -> tuple[Recorded, FlatArguments, Options]:
        """The kernel with tangents, and the arguments besides these."""
        spec, options = self.kernel.launched(flat, options)
        options = replace(options, places=self.places)
        spec, flat = played_back(spec, flat, options)
        return derivative_kernel(spec, tuple(
            x.name in self.moving for x in flat.leaves), "fwd"), flat, options

    def flatten(self, arguments: Mapping[str, Any],
                check: bool = True) -> FlatArguments:
        """The kernel's leaves, what threads counted, tangents, what was recorded."""
        flat = self.kernel.flatten(self.layout.arguments(arguments), check)
        counted = () if self.places is None else self.places.tapes
        tangents = [Leaf(n, describe(arguments[n], n), arguments[n])
                    for n in map(tangent_of, self.moving)]
        return FlatArguments([*flat.leaves, *counted, *tangents, *self.recorded],
                             flat.shapes)

    def launched(self, flat: FlatArguments, options: Options) -> tuple[Raw, Options]:
        """The kernel with tangents."""
        more = len(self.moving) + len(self.recorded) + (
            0 if self.places is None else len(self.places.tapes))
        own = FlatArguments(flat.leaves[:len(flat.leaves) - more], flat.shapes)
        found, _, options = self._derived(own, options)
        return _renamed(found.spec, len(self.recorded)), replace(options, places=None)


def _renamed(spec: Raw, count: int) -> Raw:
    """A kernel whose last arguments have names that no derivative of it takes."""
    function = spec.function
    last = len(function.params) - count
    params = (*function.params[:last], *(f"{p}.fwd" for p in function.params[last:]))
    body = rename(function.body, dict(zip(function.params, params, strict=True)),
                  lambda n: n)
    return Raw(replace(function, params=params, body=body), spec.kinds)


def tangent_of(name: str) -> str:
    """The argument that is the tangent of another."""
    return f"{name}.tangent"
