"""`k.fwd` and `k.bwd`: the derivatives of a kernel, kernels themselves.

Each thread of ``k.bwd`` runs its part of the kernel again and then backwards: what was
loaded is atomically added to, what was stored is exchanged with zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arrays import Array, describe, is_array
from ..autograd import Variable
from ..config import config
from ..errors import KernelTypeError, NotDifferentiableError, ShapeError
from ..scalar.differentiate import jvp, vjp
from ..specs import Raw
from .launching import Launching, Options
from .raw_arguments import Leaf, Taken, parts_of
from .raw_races import check_once
from .views import Dual, ViewType, fields_of, is_floating

if TYPE_CHECKING:
    from .rawkernel import ThreadKernel

__all__ = ["Derivative"]


class Derivative(Launching):
    """The derivative of a kernel; its arguments may be pairs ``(x, dx)`` or `Dual`.

    ``k.fwd`` computes what the kernel computes, and the tangents of what it stores from
    the tangents of what it loads.  ``k.bwd`` stores nothing into the arrays; it *adds*
    to the derivatives of what the kernel loads, and sets those of what it stores to
    zero: they are consumed; those of what it adds to by ``nf.atomic.add`` are kept.  An
    array that is no pair has no derivative.

    A derivative may have another floating dtype than its array.  That of a 16-bit array
    had better be float32: sums of 16-bit numbers round at every addition.

    Parameters
    ----------
    kernel
        What is differentiated.
    mode
        ``"fwd"`` or ``"bwd"``.

    Raises
    ------
    NotDifferentiableError
        At the launch of ``bwd``: the kernel reads what it writes, or passes values that
        the derivative needs through shared memory or shuffles, and has no rule of its
        own; a pair for a parameter that has no derivative.
    GradientRaceError
        Under ``NBFUSED_DEBUG=1``: an element is touched twice by ``load_once`` or
        ``store_once``.
    """

    def __init__(self, kernel: ThreadKernel, mode: str) -> None:
        super().__init__(f"{kernel.__name__}.{mode}", kernel.signature)
        self.kernel, self.mode = kernel, mode
        self._specs: dict[tuple[Raw, tuple[bool, ...]], Raw] = {}

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch on an array, a number or a pair for each parameter."""
        rule = self.kernel.rules.get(self.mode)
        if rule is not None:
            duals = {n: _dual(v) for n, v in arguments.items()}
            for name, value in duals.items():
                if isinstance(value, Dual) and _is_pair(tuple(value)):
                    self._check_pair(name, *(describe(_plain(v)) for v in value))
            rule.start(duals, options)
            return
        pairs = _Pairs(self.__name__)
        primal = {name: pairs.primal(name, value, self.kernel.annotations.get(name))
                  for name, value in arguments.items()}
        taken = self.kernel.take(primal, options.check)
        wanted = [leaf.name in pairs.found for leaf in taken.leaves]
        for leaf in taken.leaves:
            if leaf.name in pairs.found:
                self._check(leaf, pairs.found[leaf.name])
        if not any(wanted):
            raise KernelTypeError(f"{self.__name__}: no argument is a pair (x, dx)")
        spec = self.kernel.spec(taken)
        if self.mode == "bwd":
            self._check_written(spec, taken, wanted)
        if config.debug and self.mode == "bwd":
            check_once(spec, taken.leaves, wanted, options)
        extended = Taken([*taken.leaves, *(
            Leaf(f"{leaf.name}[1]", pairs.found[leaf.name].value,
                 pairs.found[leaf.name].owner)
            for leaf in taken.leaves if leaf.name in pairs.found)], taken.shapes)
        self.run(self.spec(spec, tuple(wanted)), extended, options)

    def spec(self, spec: Raw, wanted: tuple[bool, ...]) -> Raw:
        """The derivative's kernel: the arrays', then the derivatives' parameters."""
        found = self._specs.get((spec, wanted))
        if found is None:
            found = self._specs[spec, wanted] = self._differentiated(spec, wanted)
        return found

    def _differentiated(self, spec: Raw, wanted: tuple[bool, ...]) -> Raw:
        raw = tuple(p for p, k in zip(spec.function.params, spec.kinds, strict=True)
                    if k == "array")
        function = vjp(spec.function, wanted, (), False, raw) \
            if self.mode == "bwd" else jvp(spec.function, wanted)
        return Raw(function, (*spec.kinds, *("array",)*sum(wanted)))

    def _check_written(self, spec: Raw, taken: Taken, wanted: Sequence[bool]) -> None:
        """Whether there is a cotangent to start from."""
        written = [p in spec.written for p in spec.function.params]
        names = ", ".join(repr(n) for n, w in zip(taken.names, written, strict=True)
                          if w)
        if not any(a and b for a, b in zip(wanted, written, strict=True)):
            raise KernelTypeError(
                f"{self.__name__}: the derivative starts from pairs (y, dy) for what "
                f"the kernel writes to, {names or 'which is nothing'}; got none")

    def _check(self, leaf: Leaf, derivative: Leaf) -> None:
        """Whether an argument may have this derivative."""
        name, value, other = leaf.name, leaf.value, derivative.value
        view = leaf.annotation
        if isinstance(view, ViewType):
            allowed = view.differentiable
        else:
            allowed = self.kernel.differentiable
        if not allowed or type(value) is not Array or not is_floating(value.dtype):
            why = f"is a {view}" if isinstance(view, ViewType) else \
                "is no floating array" if self.kernel.differentiable else \
                "is not declared differentiable (DiffView, or differentiable=True)"
            raise NotDifferentiableError(f"{self.__name__}: '{name}' {why}; pass it "
                                         "alone, not as a pair")
        self._check_pair(name, value, other)

    def _check_pair(self, name: str, value: Array, other: Array) -> None:
        """Whether one array may be the derivative of another."""
        if not is_floating(other.dtype):
            raise KernelTypeError(
                f"{self.__name__}: the derivative of '{name}' must be floating, got "
                f"{other.dtype}; convert it with astype")
        if other.shape != value.shape:
            raise ShapeError(f"{self.__name__}: '{name}' has shape {value.shape}, its "
                             f"derivative {other.shape}; pass arrays of one shape")


class _Pairs:
    """Takes the derivatives out of arguments, by name."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.found: dict[str, Leaf] = {}

    def primal(self, name: str, value: Any, annotation: Any) -> Any:
        """`value` with arrays in place of pairs."""
        expected = fields_of(annotation)
        parts = parts_of(value)
        if expected and parts is None and isinstance(value, tuple) and \
                len(value) == len(expected):
            parts = dict(zip(expected, value, strict=True))
        if isinstance(value, Dual) or (expected is None and _is_pair(value)):
            label, derivative = f"{name}[1]", _plain(value[1])
            self.found[name] = Leaf(label, describe(derivative, label), derivative)
            return value[0]
        if parts is not None:
            return {n: self.primal(f"{name}.{n}", v, (expected or {}).get(n))
                    for n, v in parts.items()}
        return value


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, Variable) else value


def _is_pair(value: Any) -> bool:
    return type(value) in (tuple, list) and len(value) == 2 and all(
        isinstance(v, Variable) or is_array(v) for v in value)


def _dual(value: Any) -> Any:
    return Dual(*value) if _is_pair(value) else value
