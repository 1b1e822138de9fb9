"""How the gradient of a kernel changes along a direction: second derivatives.

The Hessian is symmetric, so that the cotangents which a reverse pass over ``bwd`` would
give are what ``bwd`` adds to when it is differentiated forwards.  That needs nothing
from other threads, where reverse mode would need the cotangents that ``bwd`` took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrays import describe
from ..errors import NotDifferentiableError
from ..scalar.build import inline
from ..scalar.clean import clean
from ..scalar.differentiate import jvp
from ..scalar.ir import Custom, Function, Let, drop_params, rewrite, walk
from ..scalar.rules import has_rule
from ..specs import Raw
from .launching import Launching, Options
from .raw_arguments import Leaf, Taken
from .raw_pairs import label_of, parts_in
from .views import Dual, fields_of

if TYPE_CHECKING:
    from .rawkernel import ThreadKernel

__all__ = ["Bent", "Second"]


class Bent(NamedTuple):
    """An array, the direction it moves along, and what the change is added to."""

    primal: Any
    direction: Any = None
    change: Any = None


class Second(Launching):
    """The change of ``k.bwd``; arguments are `Bent`, or ``Dual(y, dy)`` for results."""

    def __init__(self, kernel: ThreadKernel) -> None:
        super().__init__(f"{kernel.__name__}.bwd.fwd", kernel.signature)
        self.kernel = kernel
        self._specs: dict[tuple[Raw, tuple[tuple[bool, ...], ...]], Raw] = {}

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch; the cotangents of results are consumed, as ``bwd`` does."""
        given: dict[str, Bent | Dual] = {}
        annotations = self.kernel.annotations
        taken = self.kernel.take({n: _primal(n, v, annotations.get(n), given)
                                  for n, v in arguments.items()}, options.check)
        names = [leaf.name for leaf in taken.leaves]
        values = [given.get(n, Bent(None)) for n in names]
        roles = ([v.derivative if isinstance(v, Dual) else None for v in values],
                 [v.direction if isinstance(v, Bent) else None for v in values],
                 [v.change if isinstance(v, Bent) else None for v in values])
        spec = self.spec(self.kernel.spec(taken), tuple(
            tuple(x is not None for x in role) for role in roles))
        extra = (Leaf(n, describe(x), x) for role in roles
                 for n, x in zip(names, role, strict=True) if x is not None)
        self.run(spec, Taken([*taken.leaves, *extra], taken.shapes), options)

    def spec(self, spec: Raw, roles: tuple[tuple[bool, ...], ...]) -> Raw:
        """Parameters: the kernel's, then cotangents, directions and changes."""
        found = self._specs.get((spec, roles))
        if found is None:
            self._check(spec)
            found = self._specs[spec, roles] = self._made(spec, *roles)
        return found

    def _made(self, spec: Raw, cotangents: Sequence[bool], directions: Sequence[bool],
              changes: Sequence[bool]) -> Raw:
        wanted = tuple(a or b for a, b in zip(cotangents, changes, strict=True))
        bwd = self.kernel.bwd.spec(spec, wanted).function
        added = [c for c, w in zip(changes, wanted, strict=True) if w]
        both = jvp(bwd, (*directions, *added))
        count = len(directions)
        bars = both.params[count:count + len(added)]
        gradients = [p for p, a in zip(bars, added, strict=True) if a]
        function = _without(both, gradients)
        return Raw(function, (*spec.kinds,
                              *("array",) * (len(function.params) - count)))

    def _check(self, spec: Raw) -> None:
        """What a rule by hand gives is the derivative of nothing: no symmetry."""
        ruled = any(isinstance(s, Custom)
                    for s in walk(inline(spec.function, has_rule).body))
        if ruled or self.kernel.rules:
            raise NotDifferentiableError(
                f"{self.kernel.__name__}: the second derivative of a kernel with a "
                "rule by hand is not known; write the gradient as a kernel of its own "
                "and make an operation of that with .as_op")


def _primal(name: str, value: Any, annotation: Any,
            found: dict[str, Bent | Dual]) -> Any:
    """An argument of the kernel; what goes along with its leaves is `found`."""
    if isinstance(value, (Bent, Dual)):
        found[name] = value
        return value[0]
    expected = fields_of(annotation)
    parts = parts_in(value, expected)
    if parts is None:
        return value
    made = {n: _primal(label_of(name, n), v, (expected or {}).get(n), found)
            for n, v in parts.items()}
    return tuple(made.values()) if 0 in made else made


def _without(function: Function, arrays: Iterable[str]) -> Function:
    """`function` without what it writes to `arrays`, and without these."""
    gone = set(arrays)

    def kept(s: Let) -> tuple[Let, ...]:
        written = not s.results and s.args and s.args[0] in gone
        return () if written else (s,)

    rest = clean(replace(function, body=rewrite(function.body, kept)))
    return drop_params(rest, tuple(p not in gone for p in rest.params))
