"""The rows of the tables that programs are drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

__all__ = ["ANY", "REAL", "Row", "rows"]

REAL = "biuf"
ANY = "biufc"


@dataclass(frozen=True)
class Row:
    """A template of an expression or statement.

    Attributes
    ----------
    text
        ``{a}`` and ``{b}`` are operands, the other holes are in `holes`.
    kinds
        Kinds of dtypes that ``{a}`` may have, those of ``{b}`` after a comma.
    domain
        Where ``{a}`` has to be; it is wrapped where it is not.
    features
        What some ways refuse.
    exact
        Whether it rounds nothing.
    smooth
        Whether it can be differentiated by its floating operands.
    ndim
        Dimensions that ``{a}`` has at least.
    """

    text: str
    kinds: str = REAL
    domain: tuple[float, float] = (-inf, inf)
    features: frozenset[str] = frozenset()
    exact: bool = False
    smooth: bool = True
    weight: float = 1.0
    ndim: int = 0


def rows(template: str, names: Iterable[str], kinds: str = REAL,
          domain: tuple[float, float] = (-inf, inf), features: str = "",
          exact: bool = False, smooth: bool = True, weight: float = 1.0,
          ndim: int = 0) -> list[Row]:
    """A row for each name, which stands for ``@``."""
    return [Row(template.replace("@", name), kinds, domain,
                frozenset(features.split()), exact, smooth, weight, ndim)
            for name in names]
