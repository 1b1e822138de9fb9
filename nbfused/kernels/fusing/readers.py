"""Generated functions that read arguments of one structure, for functions with plans.

What a call of a fused function depends on is asked of its arguments object by object
(`Arguments`), which takes longer than small kernels.  Once a plan has run, a function
is generated that asks all of it of arguments like those: the types of containers,
arrays and numbers, lengths, keys, constants by identity, and the arrays' layouts.  It
gives None for any other arguments, which are then looked at closely.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...arrays.traced import Traced
from ...autograd import Variable
from ...autograd.recording import recording
from ...dispatch.callers import Headers, layout_reader
from ...support.generated import define
from .arguments import (
    Attribute,
    can_change,
    constant_key,
    is_fixed,
    is_leaf,
    is_number,
    varies,
)
from .outside.containers import is_container, is_object, items_of
from .plans.plan import Plan
from .plans.segments import SegmentedPlan

__all__ = ["Reader", "make_reader"]

AnyPlan = Plan | SegmentedPlan
#: ``read(args, kwargs, hidden)``: arrays and numbers in order, the key of the arrays'
#: layouts, and their addresses; None for other arguments than it was made for.
Read = Callable[[tuple[Any, ...], dict[str, Any], Mapping[str, Any]],
                tuple[list[Any], Any, tuple[int, ...]] | None]

_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
          inspect.Parameter.KEYWORD_ONLY)

_TEXT = """\
def read(args, kwargs, hidden):
    try:
{checks}
        layout = layout_of(({arrays}))
    except Exception:  # containers of another length, or arrays that nobody can read
        return None
    return None if layout is None else ([{leaves}], *layout)
"""


_LIMIT = 256  # layouts of one structure


class Reader:
    """A generated function for one structure of arguments, with plans by layout."""

    def __init__(self, read: Read) -> None:
        self.read = read
        #: By layout; with the values outside that the function read.
        self._plans: dict[Any, tuple[Any, AnyPlan]] = {}
        #: The layout that came last, which most calls have, too; and its plan.
        self._last: tuple[Any, tuple[Any, AnyPlan] | None] = None, None

    def find(self, layout: Any, scope: Any) -> AnyPlan | None:
        """The plan for a layout and the key of the values outside."""
        known, found = self._last
        if layout != known:
            found = self._plans.get(layout)
            self._last = layout, found
        return found[1] if found and found[0] == scope else None

    def keep(self, layout: Any, scope: Any, plan: AnyPlan) -> None:
        """Keep the plan for a layout and the key of the values outside."""
        if len(self._plans) >= _LIMIT:
            self._plans.clear()
        found = self._plans[layout] = scope, plan
        self._last = layout, found


class _NoReaderError(Exception):
    """Raised where only a close look at an argument can tell what it is."""


def make_reader(signature: inspect.Signature, args: tuple[Any, ...],
                kwargs: Mapping[str, Any], hidden: Mapping[str, Any],
                headers: Headers | None,
                varying: Collection[Attribute] = (),
                asked: Collection[str] = ()) -> Reader | None:
    """Generate the reader of arguments like these; None if there is none.

    Parameters
    ----------
    hidden
        Arrays and containers that the function reads from outside.
    headers
        Finds how to read all arrays at once, if the backend knows a way.
    varying, asked
        As for `Arguments`.
    """
    if not all(p.kind in _NAMED for p in signature.parameters.values()):
        return None
    text = _Text(varying, asked)
    try:
        text.arguments(signature, args, kwargs)
        text.hidden(hidden)
    except _NoReaderError:
        return None
    layout_of = layout_reader(tuple(map(type, text.examples)), [
        len(x.shape) for x in text.examples], headers)
    if layout_of is None:
        return None
    names = {**text.names, "layout_of": layout_of, "Variable": Variable,
             "recording": recording}
    source = _TEXT.format(
        checks="\n".join(f"        {line}" for line in text.lines),
        arrays=_listed(text.arrays), leaves=_listed(text.leaves))
    define(source, "reader", names)
    return Reader(names["read"])


class _Text:
    """The lines of a reader, and what they name.

    Attributes
    ----------
    leaves, arrays
        Variables of the text: arrays and numbers, arrays without their `Variable`.
    examples
        The arrays that it is made for.
    """

    def __init__(self, varying: Collection[Attribute], asked: Collection[str]) -> None:
        self._varying, self._asked = varying, asked
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.leaves: list[str] = []
        self.arrays: list[str] = []
        self.examples: list[Any] = []
        self._count = 0
        self._containers: dict[int, str] = {}

    def arguments(self, signature: inspect.Signature, args: tuple[Any, ...],
                  kwargs: Mapping[str, Any]) -> None:
        """Read all arguments, in the order in which `Arguments` does."""
        at = self._new(len(args))
        if args:
            self.lines.append(f"{_listed(at)} = args")
        self._unless("kwargs" if not kwargs else f"len(kwargs) != {len(kwargs)}")
        self._unless("args" if not args else "")
        given = dict(zip(signature.parameters, zip(at, args, strict=True),
                         strict=False))
        for name in signature.parameters:
            if name in kwargs:
                (x,) = self._new(1)
                self.lines.append(f"{x} = kwargs[{name!r}]")
                self._argument(name, x, kwargs[name])
            elif name in given:
                self._argument(name, *given[name])

    def _argument(self, name: str, at: str, x: Any) -> None:
        self._visit(at, x, is_fixed(name, x, self._asked))

    def hidden(self, arrays: Mapping[str, Any]) -> None:
        """Read the arrays from outside, which come after the arguments."""
        self._unless(f"len(hidden) != {len(arrays)}")
        for name, x in arrays.items():
            (at,) = self._new(1)
            self.lines.append(f"{at} = hidden[{name!r}]")
            self._visit(at, x, hidden=True)

    def _unpack(self, names: Sequence[str], at: str, how: str = "") -> None:
        """Name what a container holds; another length is an error, or is asked for."""
        if names:
            self.lines.append(f"{_listed(names)} = {at}{how}")
        else:
            self._unless(f"len({at}) != 0")

    def _visit(self, at: str, x: Any, hidden: bool = False) -> None:
        if is_leaf(x) and not (hidden and is_number(x)):
            self._leaf(at, x)
        elif is_container(x):
            self._container(at, x, hidden)
        else:
            self._constant(at, x)

    def _leaf(self, at: str, x: Any) -> None:
        self._type(at, x)
        self.leaves.append(at)
        if is_number(x):
            return
        if type(x) is Variable:
            (value,) = self._new(1)
            self._unless(f"{at}._edge is not None and recording()")
            self.lines.append(f"{value} = {at}._value")
            at, x = value, x.data
            self._type(at, x)
        if isinstance(x, (Traced, Variable)):
            raise _NoReaderError
        self.arrays.append(at)
        self.examples.append(x)

    def _container(self, at: str, x: Any, fixed: bool) -> None:
        first = self._containers.setdefault(id(x), at)
        if first != at and not isinstance(x, tuple):
            self._unless(f"{at} is not {first}")
            return
        self._type(at, x)
        owner = x if is_object(x) else None
        if owner is not None:
            (held,) = self._new(1)
            self.lines.append(f"{held} = {at}.__dict__")
            at, x = held, vars(x)
        elif not (type(x) in (list, tuple, dict)
                  or (isinstance(x, tuple) and type(x).__iter__ is tuple.__iter__)):
            raise _NoReaderError  # it says itself what it holds
        items: Sequence[Any] = tuple(x.values()) if isinstance(x, dict) else x
        if isinstance(x, dict):
            keys = self._new(len(x))
            self._unpack(keys, at)
            for key, value in zip(keys, x, strict=True):
                self._same(key, value)
        inside = self._new(len(items))
        self._unpack(inside, at, ".values()" * isinstance(x, dict))
        for name, (key, item) in zip(inside, items_of(x), strict=True):
            self._visit(name, item, fixed if owner is None else not varies(
                owner, key, self._varying))

    def _constant(self, at: str, x: Any) -> None:
        if constant_key("", x) is None or can_change(x):
            raise _NoReaderError
        self._same(at, x)

    def _type(self, at: str, x: Any) -> None:
        kind = f"T_{at}"
        self.names[kind] = type(x)
        self._unless(f"type({at}) is not {kind}")

    def _same(self, at: str, x: Any) -> None:
        known = f"C_{at}"
        self.names[known] = x
        self._unless(f"{at} is not {known}")

    def _unless(self, condition: str) -> None:
        if condition:
            self.lines.append(f"if {condition}: return None")

    def _new(self, count: int) -> list[str]:
        self._count += count
        return [f"x{k}" for k in range(self._count - count, self._count)]


def _listed(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names).rstrip()
