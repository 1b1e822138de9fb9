"""`k.fwd` and `k.bwd`: the derivatives of a kernel, kernels themselves.

Each thread of ``k.bwd`` runs its part of the kernel again and then backwards: what was
loaded is atomically added to, what was stored is exchanged with zero.  Values that the
kernel overwrites are recorded before, in `tapes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...arrays import Array
from ...config import config
from ...errors import KernelTypeError, NotDifferentiableError
from ...scalar.source import structure
from ...specs import Raw
from .arguments import FlatArguments, Leaf
from .launching import Launching, Options
from .pairs import Pairs, as_duals, check_pair, check_separate
from .recording.ownership import check_owners
from .recording.places import played_back
from .recording.races import check_once
from .recording.recorder import record_tapes
from .recording.stale import check_before
from .recording.tapes import derivative_kernel
from .views import Dual, ViewType, is_floating

if TYPE_CHECKING:
    from .differentiable import DifferentiableKernel

__all__ = ["Derivative"]

_DECORATORS = {"bwd": "defvjp", "fwd": "defjvp"}
_OTHER = {"bwd": "fwd", "fwd": "bwd"}


class Derivative(Launching):
    """The derivative of a kernel; its arguments may be pairs ``(x, dx)`` or `Dual`.

    ``k.fwd`` computes what the kernel computes, and the tangents of what it stores from
    the tangents of what it loads.  ``k.bwd`` stores nothing into the arrays; it *adds*
    to the derivatives of what the kernel loads, and sets those of what it stores to
    zero: they are consumed; those of what it adds to by ``nf.atomic.add`` are kept.  It
    takes arrays as they were before the launch: of what the kernel reads first and then
    overwrites, pass a copy that was made before.  Each thread, or each block if the
    kernel has barriers, must keep to elements of its own in an array that the kernel
    both reads and writes.  An array that is no pair has no derivative.  Of a struct or
    tuple each part may be a pair, or the whole: ``Dual(p, dp)`` with two structs of the
    same fields, or tuples, None for what has no derivative.  So a tuple of two arrays
    without derivatives is ``Dual((a, b), (None, None))``; ``(a, b)`` is a pair.

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
    KernelTypeError
        At the launch of ``bwd``: no pair for what the kernel writes to, or none for
        what it reads.  With ``check=False`` the latter only sets derivatives to zero.
    OverlapError
        A derivative shares memory with another array of the call, or what two pairs
        are written to is one.
    NotDifferentiableError
        At the launch of ``bwd``: a loop with barriers that not all threads of a block
        come to, in a kernel without a rule of its own; a pair for a parameter that has
        no derivative.
    GradientRaceError
        Under ``NBFUSED_DEBUG=1``: an element is touched twice by ``load_once`` or
        ``store_once``, or is touched by one thread and changed by another where the
        kernel both reads and writes the array.
    InplaceModificationError
        Under ``NBFUSED_DEBUG=1``: an array is as the last launch left it, and not as
        the launch found it.
    """

    def __init__(self, kernel: DifferentiableKernel, mode: str) -> None:
        super().__init__(f"{kernel.__name__}.{mode}", kernel.signature)
        self.kernel: DifferentiableKernel = kernel
        self.mode: str = mode

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch on an array, a number or a pair for each parameter."""
        pairs = Pairs(self.__name__)
        primal = {name: pairs.primal(name, value, self.kernel.annotations.get(name))
                  for name, value in arguments.items()}
        flat = self.kernel.flatten(primal, options.check)
        if self.kernel.rules:
            return self._start_rule(arguments, flat.leaves, pairs.found, options)
        spec, options = self.kernel.launched(flat, options)
        spec, flat = played_back(spec, flat, options)
        wanted = tuple(leaf.name in pairs.found for leaf in flat.leaves)
        self._check_pairs(spec, flat.leaves, pairs.found, options.check)
        if config.debug and self.mode == "bwd":
            check_once(spec, flat.leaves, wanted, options)
            check_owners(spec, flat, wanted, options)
            check_before(spec, flat, options, *self.kernel.last)
        extended = FlatArguments([*flat.leaves, *(
            pairs.found[leaf.name] for leaf in flat.leaves
            if leaf.name in pairs.found)], flat.shapes)
        derived = derivative_kernel(spec, wanted, self.mode)
        if derived.counted:
            raise self._counted(flat, spec, derived.counted[0])
        extended.leaves += record_tapes(derived, flat, options)
        self.run(derived.spec, extended, options)

    def _counted(self, flat: FlatArguments, spec: Raw,
                 array: str) -> NotDifferentiableError:
        """The error for a derivative that another run of the kernel cannot give."""
        name = flat.leaves[spec.function.params.index(array)].name
        return NotDifferentiableError(
            f"{self.__name__}: the derivative depends on what atomic operations on "
            f"'{name}' gave in the launch, which another run may give otherwise; "
            f"launch {self.kernel.__name__} with Variables or make an operation of it, "
            "with .as_op, which record it, or give the kernel a rule, or store places "
            "that threads count in one kernel, to read them in another")

    def _start_rule(self, arguments: Mapping[str, Any], leaves: Sequence[Leaf],
                    pairs: Mapping[str, Leaf], options: Options) -> None:
        """Launch the rule that was given by hand."""
        rule = self.kernel.rules.get(self.mode)
        if rule is None:
            raise self._one_way()
        for leaf in leaves:
            if leaf.name in pairs:
                check_pair(self.__name__, leaf.name, leaf.value,
                           pairs[leaf.name].value)
        if options.check and self.mode == "bwd":
            check_separate(self.__name__, self.mode, leaves, pairs,
                           [False] * len(leaves))
        annotations = self.kernel.annotations
        flat = rule.flatten({n: as_duals(arguments[n], annotations.get(n))
                             for n in rule.signature.parameters}, options.check)
        flat.shapes = {n: _alone(shape) for n, shape in flat.shapes.items()}
        spec, options = rule.launched(flat, options)
        rule.run(spec, flat, options)

    def rule_spec(self, kind: str) -> Raw:
        """The rule that was given by hand, as it was first launched."""
        rule = self.kernel.rules.get(self.mode)
        if rule is None:
            raise self._one_way()
        for spec, _ in rule._specs.values():
            return spec
        name = self.kernel.__name__
        raise KernelTypeError(
            f"{name}.source({kind!r}): {self.__name__} is the rule {rule.__name__}, "
            f"whose types are not known before its first launch; launch {self.__name__}"
            " once")

    def _one_way(self) -> NotDifferentiableError:
        """The error for a missing rule that the other mode's rule cannot replace.

        To differentiate the kernel itself would give another derivative than the rule.
        """
        (rule,) = self.kernel.rules.values()
        name, other = self.kernel.__name__, _DECORATORS[self.mode]
        return NotDifferentiableError(
            f"{self.__name__}: {name} has a rule for the other direction only, "
            f"{rule.__name__}, by {name}.{_DECORATORS[_OTHER[self.mode]]}; give it one "
            f"for this direction by @{name}.{other}")

    def _check_pairs(self, spec: Raw, leaves: Sequence[Leaf], pairs: Mapping[str, Leaf],
                     checked: bool) -> None:
        """Refuse pairs whose derivatives this launch cannot compute."""
        for leaf in leaves:
            if leaf.name in pairs:
                self._check(leaf, pairs[leaf.name])
        if not pairs:
            raise KernelTypeError(f"{self.__name__}: no argument is a pair (x, dx)")
        params = spec.function.params
        if self.mode == "bwd":
            self._check_ends(spec, leaves, pairs, checked)
        if checked:
            check_separate(self.__name__, self.mode, leaves, pairs,
                           [p in spec.written for p in params])

    def spec(self, spec: Raw, wanted: tuple[bool, ...]) -> Raw:
        """The derivative's kernel: the arrays', then the derivatives' parameters."""
        return derivative_kernel(spec, wanted, self.mode).spec

    def _check_ends(self, spec: Raw, leaves: Sequence[Leaf],
                    pairs: Mapping[str, Leaf], checked: bool) -> None:
        """Refuse a launch without a cotangent to start from and one to add to."""
        written, read, results = (
            [leaf for p, leaf in zip(spec.function.params, leaves, strict=True)
             if p in found] for found in (spec.written, spec.read,
                                          spec.written - spec.read))
        if not any(leaf.name in pairs for leaf in written):
            names = ", ".join(repr(leaf.name) for leaf in written)
            raise KernelTypeError(
                f"{self.__name__}: the derivative starts from pairs (y, dy) for what "
                f"the kernel writes to, {names or 'which is nothing'}; got none")
        ends = [leaf.name for leaf in read if self._refusal(leaf) is None]
        if checked and ends and not pairs.keys() - {leaf.name for leaf in results}:
            raise KernelTypeError(
                f"{self.__name__}: nothing that the kernel reads is a pair, so that no "
                f"derivative is added to; pass ({ends[0]}, d{ends[0]})"
                f"{''.join(f' or ({n}, d{n})' for n in ends[1:])}, or check=False to "
                "set the derivatives of what it writes to zero and do nothing else")

    def _check(self, leaf: Leaf, derivative: Leaf) -> None:
        """Refuse a derivative that an argument cannot have."""
        why = self._refusal(leaf)
        if why is not None:
            raise NotDifferentiableError(f"{self.__name__}: '{leaf.name}' {why}; pass "
                                         "it alone, not as a pair")
        check_pair(self.__name__, leaf.name, leaf.value, derivative.value)

    def _refusal(self, leaf: Leaf) -> str | None:
        """The reason why an argument has no derivative; None if it may have one."""
        view, declared = leaf.annotation, self.kernel.differentiable
        allowed = view.differentiable if isinstance(view, ViewType) else declared
        if allowed and type(leaf.value) is Array and is_floating(leaf.value.dtype):
            return None
        if isinstance(view, ViewType):
            return f"is a {view}"
        return "is no floating array" if declared else \
            "is not declared differentiable (DiffView, or differentiable=True)"


def _alone(shape: Any) -> Any:
    """The shape of an argument of a rule, whose arrays outside of pairs are alone."""
    if isinstance(shape, structure.Array):
        return replace(shape, alone=True)
    dual = isinstance(shape, structure.Struct) and shape.names == Dual._fields
    if dual or not isinstance(shape, tuple):
        return shape
    return structure.rebuild(shape, map(_alone, shape))
