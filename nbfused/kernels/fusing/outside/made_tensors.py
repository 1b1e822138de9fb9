"""Tensors that a function makes of numbers while `fuse` traces it.

As `host_arrays` for NumPy's; PyTorch has a mode in which each call of it is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from ....arrays.traced import Traced
from ....support.trees import leaves_of, map_tree
from .lines import is_ours

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["making_tensors"]

#: What gives away the memory of a tensor: what is stored there is not seen.
_OPENING = frozenset({"__array__", "__dlpack__", "data_ptr", "numpy", "storage",
                      "untyped_storage"})


def making_tensors(trace: Trace) -> AbstractContextManager[Any]:
    """A context in which tensors are told apart for a trace."""
    torch = sys.modules.get("torch")
    return _mode()(trace) if trace.tensors and torch is not None else nullcontext()


@cache
def _mode() -> Any:
    mode: Any = sys.modules["torch"].overrides.TorchFunctionMode

    class Making(mode):
        """Calls of PyTorch, each with what it is called with."""

        def __init__(self, trace: Trace) -> None:
            super().__init__()
            self.trace = trace

        def __torch_function__(self, function: Callable[..., Any], types: Any,
                               args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            if is_ours(sys._getframe(1)):
                return function(*args, **kwargs or {})
            return _call(self.trace, function, args, kwargs or {})

    return Making


def _call(trace: Trace, function: Callable[..., Any], args: Sequence[Any],
          kwargs: Mapping[str, Any]) -> Any:
    """Call a function of PyTorch, and tell whether its result is known."""
    given = list(leaves_of((args, kwargs)))
    changed = [x for x in _changed(function.__name__, args, kwargs)
               if not isinstance(x, Traced)]
    if any(isinstance(x, Traced) for x in given):
        for x in changed:
            trace.ask_to_trace(x)
        return function(*args, **kwargs)
    made = function(*args, **kwargs)
    if _draws(function) or function.__name__ in _OPENING or not all(
            map(trace.memories.knows, given)):
        for x in changed:
            trace.memories.forget(x)
        return made
    if function.__name__.startswith("empty"):
        made.zero_()  # as it has to be the same in each call
    tensor = sys.modules["torch"].Tensor
    return map_tree(made, lambda x: trace.made(x) if type(x) is tensor else x)


def _changed(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a function stores into, or lets others store into."""
    out = [x for x in leaves_of(kwargs.get("out")) if x is not None]
    in_place = name == "__setitem__" or name in _OPENING or (
        name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
        ) or (name.endswith("_") and not name.endswith("__"))
    return [args[0], *out] if in_place and args else out


@cache
def _draws(function: Callable[..., Any]) -> bool:
    """Whether a function draws random numbers, or may."""
    torch = sys.modules["torch"]
    packet = getattr(torch.ops.aten, function.__name__, None)
    if packet is None:
        return getattr(function, "__module__", None) == "torch.nn.functional"
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags
               for name in packet.overloads())
