"""A fused function inside of PyTorch's compiler: one op, and one for its gradient.

The op runs the function as it is called elsewhere, by its plan.  What its results are
is found by running the function on tensors without elements.  A function is traced step
by step instead where one op would not be right, or not fast: where it changes an
argument or returns a view of one, which the compiler has to know; where it takes
numbers, which it may ask for; where it draws random numbers or multiplies matrices, as
the gradient would do so again, having saved nothing but the arguments; and in a program
that is exported, as no other process knows the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from ...arrays import dtype_of
from ...support.records import record
from ...support.trees import Structure, flatten, leaves_of, map_tree
from ..calls.tracked import placeholders
from .derived import CHEAP
from .torch_callables import CallableOp
from .torch_ops import spec_of

__all__ = ["WholeOps", "is_open", "outside_modes", "outside_transforms",
           "present_number", "stand_in"]

#: How PyTorch's own operations that are not begin.
_DEAR = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "conv", "linalg", "_linalg",
         "_fft", "sort", "topk", "cum")


@record(frozen=True)
class _Whole:
    """The op for arguments of one structure, and the structure of its results."""

    op: CallableOp
    results: Structure


class WholeOps:
    """The ops of a fused function.

    Parameters
    ----------
    name
        What they are called in graphs.
    function, fused
        The function, and as it is called.
    compiled
        Makes a fused function of a derivative.
    """

    def __init__(self, name: str, function: Callable[..., Any],
                 fused: Callable[..., Any], compiled: Callable[..., Any]) -> None:
        self._name, self._function, self._fused = name, function, fused
        self._compiled = compiled
        self._known: dict[Hashable, _Whole | None] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                 ) -> tuple[Any] | None:
        """The result in a tuple; None of a function that is to be traced in steps."""
        torch = sys.modules["torch"]
        leaves, structure = flatten((args, kwargs))
        if not all(isinstance(x, torch.Tensor) for x in leaves):
            return None
        key = _key(structure.shape), *[(x.dtype, x.dim(), x.device.type)
                                       for x in leaves]
        if key not in self._known:
            self._known[key] = self._find(leaves, structure)
        found = self._known[key]
        return None if found is None else (found.results.build(found.op(*leaves)),)

    def _find(self, leaves: Sequence[Any], structure: Structure) -> _Whole | None:
        """The op for such arguments."""
        for call in (_on_tensors, _on_placeholders):
            try:
                results = _look(partial(call, self._function, structure), leaves)
            except (AttributeError, RuntimeError, TypeError, ValueError):
                continue  # PyTorch's functions take tensors, NumPy's placeholders
            run = partial(_run, self._fused, structure)
            infer = partial(_infer, call, self._function, structure)
            return None if results is None else _Whole(CallableOp(
                self._name, run, infer, (False,)*len(leaves),
                compiled=self._compiled), results)
        return None


def _key(shape: Any) -> Hashable:
    """A structure, to be compared."""
    return shape and (shape[0].kind, shape[0].keys, *map(_key, shape[1]))


def _look(call: Callable[..., Any], leaves: Sequence[Any]) -> Structure | None:
    """The structure of a function's results, by tensors without elements.

    None of one that is not an op, or a dear one.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

    torch, dear = sys.modules["torch"], list[Any]()

    class Listening(TorchDispatchMode):
        """Notes what is dear."""

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            if torch.Tag.nondeterministic_seeded in operation.tags or _is_dear(
                    operation._schema.name):
                dear.append(operation)
            return operation(*args, **(kwargs or {}))

    with _disable_current_modes(), torch.no_grad(), FakeTensorMode(), Listening():
        given = [torch.empty(_extents(x), dtype=x.dtype, device=x.device)
                 for x in leaves]
        before = [x._version for x in given]
        made, changed = call(given)
        results, found = flatten(made)
    if dear or changed or [x._version for x in given] != before or not all(
            isinstance(x, torch.Tensor) for x in results):
        return None
    memories = {x.untyped_storage()._cdata for x in (*given, *results)}
    return found if len(memories) == len(given) + len(results) else None


def _on_tensors(function: Callable[..., Any], structure: Structure,
                leaves: Sequence[Any]) -> tuple[Any, bool]:
    """Results of a function, and whether an argument has become another."""
    args, kwargs = structure.build(leaves)
    return function(*args, **kwargs), False


def _on_placeholders(function: Callable[..., Any], structure: Structure,
                     leaves: Sequence[Any]) -> tuple[Any, bool]:
    """The same by placeholders for the tensors, which NumPy's functions take."""
    held = list(map(placeholders("nf.fuse", leaves[0]), leaves))
    args, kwargs = structure.build(held)
    made = map_tree(function(*args, **kwargs), lambda x: getattr(x, "held", x))
    return made, any(x.held is not y for x, y in zip(held, leaves, strict=True))


def _is_dear(name: str) -> bool:
    """Whether an operation of PyTorch is more than a pass over its arguments."""
    space, _, own = name.partition("::")
    if space == "nbfused":
        return not isinstance(spec_of(own), CHEAP)
    return own.startswith(_DEAR)


def _extents(x: Any) -> tuple[int, ...]:
    """A shape as it is at present."""
    return tuple([n if isinstance(n, int) else n.node.hint for n in x.shape])


def _run(fused: Callable[..., Any], structure: Structure, *leaves: Any,
         ) -> tuple[Any, ...]:
    args, kwargs = structure.build(leaves)
    return tuple(leaves_of(fused(*args, **kwargs)))


def _infer(call: Callable[..., Any], function: Callable[..., Any],
           structure: Structure, *leaves: Any) -> list[Any]:
    made, _ = call(function, structure, leaves)
    return [(tuple(x.shape), dtype_of(x)) for x in leaves_of(made)]


def outside_transforms() -> AbstractContextManager[None]:
    """Make a context in which no transform of `torch.func` is at work."""
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


@contextmanager
def outside_modes() -> Iterator[None]:
    """Let PyTorch neither trace nor transform what is done."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), outside_transforms():
        yield


def stand_in(x: Any) -> Any:
    """A tensor like one, in memory for one element, to trace with."""
    torch = sys.modules["torch"]
    if not isinstance(x, torch.Tensor):
        return x
    extents = tuple(map(int, x.shape))  # to which a compiled program is tied then
    return torch.empty((), dtype=x.dtype, device=x.device).expand(extents)


def is_open(x: Any) -> bool:
    """True for a number that a program of PyTorch leaves open."""
    torch = sys.modules["torch"]
    return isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool))


def present_number(x: Any) -> Any:
    """The present value of an open number, to which a compiled program is tied."""
    return x.node.pytype(x) if is_open(x) else x
