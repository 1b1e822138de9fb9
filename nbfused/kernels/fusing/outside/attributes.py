"""Numbers that are attributes of objects: constants, until they change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..arguments import Arguments, Attribute

__all__ = ["AttributeNumbers"]


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
