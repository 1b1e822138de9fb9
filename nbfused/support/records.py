"""`record`: a `dataclass` decorator that takes a fifth of the time to apply.

A program that finds its kernels on disk is held up by what it imports, and a third of
that was `dataclass`: it writes and compiles six functions for each class, 0.4 ms for a
frozen one.  Of these only ``__init__`` need be compiled to be fast: 80 µs for a frozen
record of five fields, where `dataclass` takes 398 (benchmarks/notes/host.md#imports).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

from .generated import define

__all__ = ["record"]


def _record(cls: type | None = None, /, *, frozen: bool = False,
            eq: bool = True) -> Any:
    """Make a class a record of its annotated fields, as `dataclasses.dataclass`.

    ``fields``, ``replace``, ``field`` and patterns of ``match`` work as for any
    dataclass, and instances are equal, hashed, printed, copied and pickled as they are.

    Raises
    ------
    TypeError
        For what `dataclass` has besides: ``__post_init__``, fields that are given by
        name only or not at all.
    """
    if cls is None:
        return lambda cls: _record(cls, frozen=frozen, eq=eq)
    cls.__doc__ = cls.__doc__ or cls.__name__  # `dataclass` would compose one
    made: Any = dataclass(init=False, repr=False, eq=False)(cls)
    if hasattr(made, "__post_init__") or any(
            f.kw_only or not f.init for f in fields(made)):
        raise TypeError(f"{cls.__name__}: a record takes its fields in their order, "
                        "and nothing else; use dataclasses.dataclass")
    methods: dict[str, Callable[..., Any] | None] = {
        "__init__": _initializer(fields(made), frozen), "__repr__": _repr}
    if eq:
        methods |= _comparison([f.name for f in fields(made) if f.compare], frozen)
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
    own = vars(made)
    for name, method in methods.items():
        # A class that has `__eq__` gets None for its `__hash__` from Python.
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(made, name, method)
    return made


def _initializer(members: tuple[Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """Compile ``__init__``, on which the speed of making instances depends."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters, body = ["self"], []
    for k, f in enumerate(members):
        parameter = value = f.name
        if f.default_factory is not MISSING:
            names[f"_make{k}"] = f.default_factory
            parameter = f"{f.name}=_missing"
            value = f"_make{k}() if {f.name} is _missing else {f.name}"
        elif f.default is not MISSING:
            names[f"_default{k}"] = f.default
            parameter = f"{f.name}=_default{k}"
        parameters.append(parameter)
        body.append(f"_set(self, {f.name!r}, {value})" if frozen else
                    f"self.{f.name} = {value}")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    define(text, "record", names)
    made: Callable[..., None] = names["__init__"]
    made.__annotations__ = {**{f.name: f.type for f in members}, "return": None}
    return made


def _comparison(names: list[str], frozen: bool) -> dict[str, Any]:
    """Make ``__eq__`` and ``__hash__`` on the tuple of the fields `names`."""
    if len(names) > 1:
        values: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
    else:
        def values(self: Any) -> tuple[Any, ...]:
            return tuple([getattr(self, name) for name in names])

    def equal(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


@recursive_repr()
def _repr(self: Any) -> str:
    parts = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
    return f"{self.__class__.__qualname__}({', '.join(parts)})"


def _refuse(self: object, name: str, *value: object) -> None:
    done = "assign to" if value else "delete"
    raise FrozenInstanceError(f"cannot {done} field {name!r}")


if TYPE_CHECKING:  # what the arguments mean is what checkers know `dataclass` for
    from dataclasses import dataclass as record
else:
    record = _record
