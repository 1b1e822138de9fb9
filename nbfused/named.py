"""What decorators make of functions is copied and pickled as functions are."""

from __future__ import annotations

import sys
from pickle import PicklingError
from typing import Any, Self

__all__ = ["Named"]


class Named:
    """Something that a decorator made; `functools.update_wrapper` names it.

    A copy is the same object; pickled is where it is found again.
    """

    __qualname__: str

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def found_by_name(self) -> bool:
        """Whether its module has it under its name."""
        target: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            target = getattr(target, name, None)
        return target is self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By name, as a function."""
        if self.found_by_name():
            return self.__qualname__
        raise PicklingError(
            f"{self!r} cannot be pickled: {self.__module__} has no such "
            f"{self.__qualname__}; expected what a module has under the name of the "
            "function: decorate it there")
