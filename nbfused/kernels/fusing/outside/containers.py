"""Containers of arguments: what holds arrays, and objects of users' classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, Generic, NamedTuple, Protocol

import numpy as np

from ....arrays import is_array
from ....autograd import Variable
from .lines import is_library

__all__ = ["Change", "Copies", "Place", "holds_array", "is_array_argument",
           "is_container", "is_object", "is_user_class", "items_of"]

#: Bases that say nothing of what an object holds.
_BASES: tuple[Any, ...] = (object, Generic, Protocol)
_CLASSES: dict[type, bool] = {SimpleNamespace: True}


def is_array_argument(x: Any) -> bool:
    """True if an argument is an array or a Variable."""
    return isinstance(x, Variable) or (is_array(x) and not isinstance(x, np.generic))


def is_user_class(kind: type) -> bool:
    """Whether a class and its bases are a user's, with attributes in ``__dict__``."""
    found = _CLASSES.get(kind)
    if found is None:
        found = _CLASSES[kind] = "__dict__" in {
            name for base in kind.__mro__ for name in vars(base)} and all(
                base in _BASES or _is_users(base.__module__) for base in kind.__mro__) \
            and not hasattr(kind, "__array__") and not issubclass(kind, type)
    return found


def _is_users(module: str) -> bool:
    """Whether a module is neither Python's nor of an installed package."""
    if module.startswith("nbfused.") and not module.startswith("nbfused.examples"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return (file is not None and not is_library(file)) or module == "__main__"


def is_object(x: Any) -> bool:
    """True for an instance of a user's class, whose attributes are looked at."""
    return is_user_class(type(x)) and not is_array(x)


def items_of(x: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and items of a container, attributes of an object; else nothing."""
    if isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, (tuple, list)):
        yield from enumerate(x)
    elif is_object(x):
        yield from vars(x).items()


def holds_array(x: Any, inside: tuple[int, ...] = ()) -> bool:
    """True if it is a container with an array in it."""
    if type(x) in _NOTHING or id(x) in inside:
        return False
    return any(is_array_argument(v) or holds_array(v, (*inside, id(x)))
               for _, v in items_of(x))


_NOTHING = frozenset({int, float, bool, str, type(None), FunctionType, type,
                      np.ndarray})


def is_container(x: Any) -> bool:
    """True if what is in it is looked at: it may change, or holds arrays."""
    return type(x) in (list, dict) or is_object(x) or holds_array(x)


class Place(NamedTuple):
    """A container among the arguments: an argument's name, and the keys to there."""

    root: str
    keys: tuple[Any, ...]

    def find(self, named: dict[str, Any]) -> Any:
        """The container among the arguments of a call."""
        x = named[self.root]
        for key in self.keys:
            x = vars(x)[key] if is_object(x) else x[key]
        return x

    def __str__(self) -> str:
        return self.root + "".join(f".{k}" if isinstance(k, str) and k.isidentifier()
                                   else f"[{k!r}]" for k in self.keys)


class Change(NamedTuple):
    """A new item of a container: where, and its key; `value` is a tree of symbols."""

    place: Place
    key: Any
    value: Any

    def make(self, named: dict[str, Any], value: Any) -> None:
        """Make the change in the container of a call."""
        x = self.place.find(named)
        if is_object(x):
            object.__setattr__(x, self.key, value)
        elif isinstance(x, list) and self.key == len(x):
            x.append(value)
        else:
            x[self.key] = value

    def __str__(self) -> str:
        return str(Place(self.place.root, (*self.place.keys, self.key)))


class Copies:
    """Copies of containers with symbols in them, which tell what was changed."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._held: list[tuple[Any, dict[Any, Any], Place]] = []
        self._originals: list[Any] = []  # whose numbers must not be another's

    def copy(self, x: Any, place: Place, item: Callable[[Any, Any, Place], Any]) -> Any:
        """A copy of a container with ``item(key, value, place)`` for what it holds."""
        if id(x) in self._made:
            return self._made[id(x)]
        if isinstance(x, tuple):
            items = [item(k, v, Place(place.root, (*place.keys, k)))
                     for k, v in items_of(x)]
            return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
        made = self._made[id(x)] = _blank(x)
        self._originals.append(x)
        for k, v in items_of(x):
            _put(made, k, item(k, v, Place(place.root, (*place.keys, k))))
        self._held.append((made, dict(items_of(made)), place))
        return made

    def changes(self) -> list[Change]:
        """List what was assigned since.

        Raises
        ------
        ValueError
            Items were removed, or containers moved: the text names where.
        """
        found = []
        copies = {id(x) for x in self._made.values()}
        for made, before, place in self._held:
            now = dict(items_of(made))
            if before.keys() - now.keys():
                raise ValueError(f"items of {place}")
            for key, value in now.items():
                if key not in before or value is not before[key]:
                    change = Change(place, key, value)
                    if _holds(value, copies):
                        raise ValueError(f"{change}, which is a container from outside")
                    found.append(change)
        return found


def _holds(x: Any, copies: set[int]) -> bool:
    return id(x) in copies or (not is_array(x) and any(
        _holds(v, copies) for _, v in items_of(x)))


def _blank(x: Any) -> Any:
    """An empty container of the kind of `x`."""
    if is_object(x):
        return object.__new__(type(x))
    return {} if isinstance(x, dict) else type(x)()


def _put(made: Any, key: Any, value: Any) -> None:
    if isinstance(made, list):
        made.append(value)
    elif isinstance(made, dict):
        made[key] = value
    else:
        vars(made)[key] = value
