"""Second derivatives: the change of a kernel's gradient along a direction.

The Hessian is symmetric, so that the cotangents which a reverse pass over ``bwd`` would
give are what ``bwd`` adds to when it is differentiated forwards.  That needs nothing
from other threads, where reverse mode would need the cotangents that ``bwd`` took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...arrays import describe, dtype_of
from ...autograd.nodes import zeros
from ...errors import NotDifferentiableError
from ...scalar.autodiff.differentiate import jvp
from ...scalar.autodiff.rules import has_rule
from ...scalar.ir.build import inline
from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import Custom, Function, Let, drop_params, rewrite, walk
from ...specs import Raw
from .arguments import FlatArguments, Leaf
from .launching import Launching, Options
from .pairs import label_of, parts_in
from .recording.places import played_back
from .recording.recorder import record_changes
from .recording.tapes import derivative_kernel
from .views import Dual, fields_of

if TYPE_CHECKING:
    from .differentiable import DifferentiableKernel

__all__ = ["Moving", "SecondDerivative"]


class Moving(NamedTuple):
    """An array, the direction it moves along, and what the change is added to.

    Of one that the kernel changes also the cotangent of what it leaves there.
    """

    primal: Any
    direction: Any = None
    change: Any = None
    cotangent: Any = None


class SecondDerivative(Launching):
    """The change of ``k.bwd``; takes `Moving`, and ``Dual(y, dy)`` for results."""

    def __init__(self, kernel: DifferentiableKernel) -> None:
        super().__init__(f"{kernel.__name__}.bwd.fwd", kernel.signature)
        self.kernel = kernel
        self._specs: dict[tuple[Raw, tuple[tuple[bool, ...], ...]], Raw] = {}

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch; the cotangents of results are consumed, as ``bwd`` does."""
        given: dict[str, Moving | Dual] = {}
        annotations = self.kernel.annotations
        flat = self.kernel.flatten({n: _primal(n, v, annotations.get(n), given)
                                    for n, v in arguments.items()}, options.check)
        primal, options = self.kernel.launched(flat, options)
        primal, flat = played_back(primal, flat, options)
        names = [leaf.name for leaf in flat.leaves]
        values = [given.get(n, Moving(None)) for n in names]
        roles: tuple[list[Any], ...] = (
                 [v.derivative if isinstance(v, Dual) else v.cotangent for v in values],
                 [v.direction if isinstance(v, Moving) else None for v in values],
                 [v.change if isinstance(v, Moving) else None for v in values])
        for k, p in enumerate(primal.function.params):
            if p in primal.revised and roles[0][k] is not None and roles[2][k] is None:
                roles[2][k] = zeros(roles[0][k].shape, dtype_of(roles[0][k]),
                                    roles[0][k])  # what is handed on in memory
        spec = self.spec(primal, tuple(
            tuple(x is not None for x in role) for role in roles))
        cotangents, directions, changes = ([
            None if x is None else Leaf(n, describe(x), x)
            for n, x in zip(names, role, strict=True)] for role in roles)
        tapes, tape_changes = record_changes(derivative_kernel(
            primal, _wanted(cotangents, changes), "bwd"), flat, options, directions)
        leaves = (*flat.leaves, *cotangents, *tapes, *directions, *changes,
                  *tape_changes)
        self.run(spec, FlatArguments([x for x in leaves if x is not None], flat.shapes),
                 options)

    def spec(self, spec: Raw, roles: tuple[tuple[bool, ...], ...]) -> Raw:
        """Parameters: the kernel's, then cotangents, directions and changes."""
        found = self._specs.get((spec, roles))
        if found is None:
            self._check(spec)
            found = self._specs[spec, roles] = self._made(spec, *roles)
        return found

    def _made(self, spec: Raw, cotangents: Sequence[bool], directions: Sequence[bool],
              changes: Sequence[bool]) -> Raw:
        wanted = _wanted(cotangents, changes)
        reverse = derivative_kernel(spec, wanted, "bwd")
        bwd = reverse.spec.function
        added = [c for c, w in zip(changes, wanted, strict=True) if w]
        both = jvp(bwd, (*directions, *added, *(True for _ in reverse.tapes),
                         *(False for _ in reverse.finals)))
        count = len(directions)
        bars = both.params[count:count + len(added)]
        handed_on = [bool(g) for g, w in zip(cotangents, wanted, strict=True) if w]
        gradients = [p for p, a, h in zip(bars, added, handed_on, strict=True)
                     if a and not h]
        function = _drop_writes(both, gradients)
        return Raw(function, (*spec.kinds,
                              *("array",) * (len(function.params) - count)))

    def _check(self, spec: Raw) -> None:
        """Refuse second derivatives of kernels with custom rules."""
        ruled = any(isinstance(s, Custom)
                    for s in walk(inline(spec.function, has_rule).body))
        if ruled or self.kernel.rules:
            raise NotDifferentiableError(
                f"{self.kernel.__name__}: the second derivative of a kernel with a "
                "rule by hand is not known; write the gradient as a kernel of its own "
                "and make an operation of that with .as_op")


def _wanted(cotangents: Sequence[Any], changes: Sequence[Any]) -> tuple[bool, ...]:
    """Whether each argument has a cotangent: given, or one whose change is asked."""
    return tuple(bool(a) or bool(b) for a, b in zip(cotangents, changes, strict=True))


def _primal(name: str, value: Any, annotation: Any,
            found: dict[str, Moving | Dual]) -> Any:
    """An argument of the kernel; what goes along with its leaves is `found`."""
    if isinstance(value, (Moving, Dual)):
        found[name] = value
        return value[0]
    expected = fields_of(annotation)
    parts = parts_in(value, expected)
    if parts is None:
        return value
    made = {n: _primal(label_of(name, n), v, (expected or {}).get(n), found)
            for n, v in parts.items()}
    return tuple(made.values()) if 0 in made else made


def _drop_writes(function: Function, arrays: Iterable[str]) -> Function:
    """`function` without its writes to `arrays`, and without these."""
    gone = set(arrays)

    def kept(s: Let) -> tuple[Let, ...]:
        written = not s.results and s.args and s.args[0] in gone
        return () if written else (s,)

    rest = clean(replace(function, body=rewrite(function.body, kept)))
    return drop_params(rest, tuple(p not in gone for p in rest.params))
