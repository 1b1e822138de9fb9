"""Copying and pickling of decorated functions by name, as functions are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pickle import PicklingError
from typing import Any, Self

__all__ = ["PickledByName"]


class PickledByName:
    """Base class of decorated functions, which are copied and pickled by name.

    A copy is the same object.  Pickled is its name, where that leads to it.  Picklers
    that take functions by value (cloudpickle, and those of Dask, joblib, Ray and Spark,
    which are made of it) take one by value where they would take a function so: from
    ``__main__``, a notebook, or the inside of a function.
    """

    __qualname__: str

    def made_of(self) -> tuple[Any, ...]:
        """Arguments of ``__init__`` that make an equal object."""
        raise NotImplementedError

    def extras(self) -> dict[str, Any]:
        """Attributes that are set after ``__init__``, such as rules."""
        return {}

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def found_by_name(self) -> bool:
        """Whether the module attribute of its name is the object."""
        return _found(self.__module__, self.__qualname__) is self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by name if possible, else by the parts it is made of."""
        by_value = _pickler_by_value()
        if self.found_by_name() and not (by_value and _travels(self, by_value)):
            return self.__qualname__
        made_of = self.made_of()
        if by_value is None and not _is_found(made_of[0]):
            raise PicklingError(
                f"{self!r} cannot be pickled: {self.__module__} has no such "
                f"{self.__qualname__}; expected what a module has under the name of "
                "the function: decorate it there, or pickle it with cloudpickle")
        # Rules may lead back to it: it has to exist before what it is made of.
        return _blank, (type(self),), (made_of, self.extras())

    def __setstate__(self, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        made_of, extras = state
        self.__init__(*made_of)  # type: ignore[misc]
        self.__dict__.update(extras)


def _blank(cls: type[PickledByName]) -> PickledByName:
    """Make an instance without attributes."""
    return object.__new__(cls)


def _found(module: str, name: str) -> Any:
    target: Any = sys.modules.get(module)
    for part in name.split("."):
        target = getattr(target, part, None)
    return target


def _is_found(function: Any) -> bool:
    """Whether a plain pickle of `function` leads back to it."""
    name = getattr(function, "__qualname__", None)
    return name is None or _found(function.__module__, name) is function


def _pickler_by_value() -> Mapping[str, Any] | None:
    """The globals of cloudpickle, if that is pickling.

    A pickler says nothing of itself to ``__reduce_ex__``, and cloudpickle asks nobody
    but functions and classes whether they go by value.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "pickle":
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__"))
    return frame.f_globals if "cloudpickle" in module else None


def _travels(named: PickledByName, cloudpickle: Mapping[str, Any]) -> bool:
    """Whether cloudpickle would pickle a function of the module by value."""
    listed = cloudpickle.get("list_registry_pickle_by_value", tuple)()
    return named.__module__ == "__main__" or any(
        f"{named.__module__}.".startswith(f"{module}.") for module in listed)
