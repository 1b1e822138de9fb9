"""Numbers that may be constants or be passed by value, as a function uses them.

Those that are attributes of objects are constants until they change; integers and flags
that are arguments are passed by value until the function asks for one's value.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from ....errors import NbFusedPerformanceWarning
from ..arguments import Arguments, Attribute, is_integer

__all__ = ["AskedIntegers", "AttributeNumbers"]

#: Values of one argument that are traced without a word.
_VALUES = 8


class AttributeNumbers:
    """The numbers of objects that a function is called with.

    At first they are constants, so that ``range(self.layers)`` can be traced.  One that
    changes is passed by value from then on, unless the function asks for it.

    Attributes
    ----------
    varying
        Class and name of those that are passed by value.
    """

    def __init__(self) -> None:
        self.varying: set[Attribute] = set()
        self._constant: set[Attribute] = set()
        self._last: list[tuple[Attribute, Any]] | None = None

    def pass_changed(self, given: Arguments) -> bool:
        """Whether numbers have changed, and are passed by value from now on."""
        before, self._last = self._last, given.numbers
        if before is None or [k for k, _ in before] != [k for k, _ in given.numbers]:
            return False
        changed = {k for (k, x), (_, y) in zip(before, given.numbers, strict=True)
                   if x != y} - self._constant
        self.varying |= changed
        return bool(changed)

    def keep_constant(self, asked: Collection[str]) -> bool:
        """Make numbers that were asked for constants; whether there are such.

        Parameters
        ----------
        asked
            Names of traced numbers; those of attributes end with the attribute's.
        """
        if not asked or not self.varying:
            return False
        found = {own for own in self.varying
                 if any(name.endswith(own[1]) for name in asked)}
        self._constant |= found or self.varying
        self.varying -= self._constant
        return True


class AskedIntegers:
    """Integers and flags that are arguments, and whose values a function asks for.

    ``if training:`` and ``range(steps)`` cannot be traced of numbers that are passed by
    value.  Such an argument is a constant from then on, and traced for each value.

    Attributes
    ----------
    names
        The names of these arguments.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._traced: dict[str, set[Any]] = {}

    def keep_constant(self, asked: Collection[str], named: Mapping[str, Any]) -> bool:
        """Make arguments that were asked for constants; whether there are such."""
        found = {n for n in asked if n in named and is_integer(named[n])} - self.names
        self.names |= found
        return bool(found)

    def note_traced(self, function: str, named: Mapping[str, Any]) -> None:
        """Note the values that a trace is for, and warn where they are many."""
        for name in self.names & named.keys():
            values = self._traced.setdefault(name, set())
            before = len(values)
            values.add(named[name])
            if before == _VALUES < len(values):
                warnings.warn(
                    f"fuse: {function} asks for the value of '{name}', so that each "
                    f"value is traced for itself, {len(values)} so far; use "
                    "nf.ops.where or arithmetic where it changes often",
                    NbFusedPerformanceWarning, stacklevel=4)
