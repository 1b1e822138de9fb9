"""Launches on Variables that require a gradient: each is a node of the tape.

What the kernel writes to becomes, as in ``x += y``, the result of the launch: the
kernel runs on copies, and the Variables become these, so that what was recorded of them
before stays true.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as replace_record
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ....arrays import Array, describe, is_array, may_overlap
from ....autograd import Function, Variable
from ....autograd.numpy_api.in_place import replace
from ....autograd.recording import no_grad, recording
from ....autograd.versions import is_saved
from ....errors import (
    KernelTypeError,
    NotDifferentiableError,
    OverlapError,
    TapeError,
)
from ..arguments import arrays_of
from ..launching import Options
from ..recording.places import counted_kernel, record_places
from ..views import ViewType, is_floating
from .derived import Call, Pulled, copy_of, needed_leaves
from .leaves import layout_of

if TYPE_CHECKING:
    from ..rawkernel import ThreadKernel

__all__ = ["is_taped", "launch_taped"]


def is_taped(arguments: Mapping[str, Any]) -> bool:
    """True if one of the arguments is a Variable that requires a gradient."""
    return recording() and any(map(_tracked, arguments.values()))


def _tracked(value: Any) -> bool:
    if isinstance(value, Variable):
        return value.requires_grad
    if isinstance(value, Mapping):
        return any(map(_tracked, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(_tracked, value))
    fields = getattr(value, "__dataclass_fields__", None)
    return fields is not None and not isinstance(value, type) and any(
        _tracked(getattr(value, n)) for n in fields)


def launch_taped(kernel: ThreadKernel, arguments: Mapping[str, Any],
                 options: Options) -> None:
    """Launch, and record the node; written Variables become its results.

    Raises
    ------
    NotDifferentiableError
        The gradient would be lost: in an array that is written to and is no Variable,
        or as a parameter has no derivative.
    TapeError
        The kernel writes to a leaf of the tape.
    OverlapError
        What it changes shares memory with another argument.
    """
    layout, leaves = layout_of(arguments, kernel.annotations)
    given = dict(zip(layout.names, leaves, strict=True))
    plain = arrays_of(kernel.__name__, [*given], [*given.values()])
    with no_grad():
        flat = kernel.flatten(layout.arguments(plain), options.check)
    spec, _ = kernel.launched(flat, options)
    names = [leaf.name for leaf in flat.leaves]
    written = {n for p, n in zip(spec.function.params, names, strict=True)
               if p in spec.written}
    paired = tuple(leaf.name for leaf in flat.leaves if _may_pair(kernel, leaf))
    changed = tuple(n for n in names if n in written and n in paired)
    _check(kernel, given, written, paired)
    counted = None if kernel.rules else counted_kernel(
        spec, tuple(n in paired for n in names))
    call = Call(kernel, options, layout, changed, frozenset(written),
                 needed_leaves(kernel, spec, names, paired), paired, counted)
    results = _Launched.apply(call, *leaves)
    for name, made in zip(changed, results if len(changed) > 1 else (results,),
                          strict=True):
        _become(given[name], made)


def _become(x: Variable, made: Variable) -> None:
    """Make a Variable what a launch wrote.

    An array of which nothing is recorded keeps its memory, unless a launch before has
    saved it: then the Variable gets another one, as one that is recorded does.
    """
    alone = getattr(x, "_of", None) is None and not getattr(x, "_seen_by", None)
    if x._edge is None and alone and is_saved(x._value):
        x._value, x._edge = made._value, made._edge
    else:
        replace(x, made, "launch")


def _may_pair(kernel: ThreadKernel, leaf: Any) -> bool:
    """True if the derivative takes a pair for a leaf."""
    view = leaf.annotation
    declared = view.differentiable if isinstance(view, ViewType) \
        else kernel.differentiable
    return declared and type(leaf.value) is Array and is_floating(leaf.value.dtype)


def _check(kernel: ThreadKernel, given: Mapping[str, Any], written: set[str],
           paired: Sequence[str]) -> None:
    """Refuse a launch that would lose a gradient."""
    for name, value in given.items():
        tracked = isinstance(value, Variable) and value.requires_grad
        if tracked and value.dtype.kind == "c":
            raise NotDifferentiableError(
                f"{kernel.__name__}: '{name}' is a Variable of {value.dtype} that "
                "requires a gradient, and kernels of threads have derivatives by real "
                "numbers; pass its real and imaginary parts as two arrays")
        if tracked and name not in paired:
            raise NotDifferentiableError(
                f"{kernel.__name__}: '{name}' is a Variable that requires a gradient, "
                "and the parameter has no derivative; declare the kernel "
                "differentiable=True or annotate it with DiffView, or pass "
                f"{name}.data")
        if name in written and name in paired and not isinstance(value, Variable):
            raise NotDifferentiableError(
                f"{kernel.__name__}: the launch writes to '{name}', an array, and the "
                "gradient of what other Variables contribute would be lost; pass "
                f"nbfused.Variable({name}), or annotate it with View")
        if tracked and name in written and value.is_leaf:
            raise TapeError(
                f"{kernel.__name__}: the launch writes to '{name}', a leaf that "
                f"requires a gradient, whose values before it would be lost; pass "
                f"{name}.copy(), or launch inside no_grad()")
    plain = arrays_of(kernel.__name__, [*given], [*given.values()])
    _check_apart(kernel, {n: describe(v, n) for n, v in plain.items()
                          if is_array(v)}, written.intersection(paired))
    if not any(n in paired for n in written):
        raise KernelTypeError(
            f"{kernel.__name__}: an argument requires a gradient, and the launch "
            "writes to no floating array that has a derivative; launch inside "
            "no_grad()")


def _check_apart(kernel: ThreadKernel, arrays: Mapping[str, Array],
                 changed: Collection[str]) -> None:
    """Refuse memory under two names, which would be two arrays in the recorded launch.

    The kernel runs on copies of what it changes.
    """
    for (a, x), (b, y) in combinations(arrays.items(), 2):
        if (a in changed or b in changed) and may_overlap(x, y):
            raise OverlapError(f"{kernel.__name__}: '{a}' and '{b}' share memory, and "
                               "the launch, which is recorded, changes one of them; "
                               "pass a copy of the other, or one name for both")


def _recorded(call: Call, arrays: Mapping[str, Any]) -> Call:
    """The launch, or how it is played back where its threads count places."""
    kernel, options = call.kernel, call.options
    if call.counted is None:
        return call
    flat = kernel.flatten(call.layout.arguments(arrays), options.check)
    return replace_record(call, options=replace_record(
        options, places=record_places(
            call.counted, flat, kernel.launched(flat, options)[1])))


class _Launched(Function):
    """The tape's node of a launch: gives what it wrote to."""

    @classmethod
    def forward(cls, ctx: Any, call: Call, *args: Any) -> Any:
        """Launch on copies of what is written."""
        plain = arrays_of(call.kernel.__name__, call.layout.names, args)
        before = dict(zip(call.layout.names, args, strict=True))
        made = {n: copy_of(plain[n]) for n in call.changed}
        recorded = dict(zip(call.layout.names, ctx.needs_input_grad[1:], strict=True))
        copies = {n: copy_of(plain[n]) for n in call.needed if not recorded[n]}
        with no_grad():
            ctx.call = call = _recorded(call, {**plain, **made})
            call.kernel.start(call.layout.arguments({**plain, **made}), call.options)
        #: Arrays of which the derivative looks at the shapes only.
        ctx.unread = {n: made.get(n, plain[n]) for n in call.written - call.needed}
        kept = {n: copies.get(n, v) for n, v in before.items() if n not in ctx.unread}
        ctx.numbers = {n: v for n, v in kept.items() if not isinstance(v, Variable)}
        ctx.arrays = tuple(n for n, v in kept.items() if isinstance(v, Variable))
        ctx.save_for_backward(*(kept[n] for n in ctx.arrays))
        results = tuple(Variable(made[n]) for n in call.changed)
        return results if len(results) > 1 else results[0]

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Any) -> Any:
        """Launch the derivative on pairs."""
        call: Call = ctx.call
        saved = dict(zip(ctx.arrays, ctx.saved_tensors, strict=True))
        before, names = {**ctx.numbers, **saved, **ctx.unread}, call.layout.names
        wanted = tuple(n for n, need in zip(names, ctx.needs_input_grad[1:],
                                            strict=True) if need)
        found = Pulled.apply(call, wanted, *(before[n] for n in names), *cotangents)
        gradients = dict(zip(wanted, found if len(wanted) > 1 else (found,),
                             strict=True))
        return (None, *map(gradients.get, names))
