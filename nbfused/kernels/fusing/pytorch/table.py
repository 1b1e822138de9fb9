"""The table of PyTorch's functions that are made of operations, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["TORCH", "Row", "of_torch"]

T = TypeVar("T", bound=Callable[..., Any])


class Row:
    """A function with PyTorch's parameters, on traced tensors.

    It returns NotImplemented for what PyTorch's own function is called for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._signature = inspect.signature(function)

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call it; NotImplemented for parameters that it has not, but for None."""
        kwargs = {k: v for k, v in kwargs.items()
                  if v is not None or k in self._signature.parameters}
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return NotImplemented
        return self.function(*bound.args, **bound.kwargs)


#: The name in PyTorch's namespace, or of a method → what it is here.
TORCH: dict[str, Row] = {}


def of_torch(*names: str) -> Callable[[T], T]:
    """Enter a function under names of PyTorch's."""

    def enter(function: T) -> T:
        row = Row(function)
        TORCH.update(dict.fromkeys(names or (function.__name__,), row))
        return function

    return enter
