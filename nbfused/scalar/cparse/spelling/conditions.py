"""Conditions of ``#if``: constant expressions of integers, as the preprocessor's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

__all__ = ["ConditionError", "evaluate"]


class ConditionError(ValueError):
    """A condition that is no constant expression of integers."""


def _divide(a: int, b: int) -> int:
    """The quotient, rounded to zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: Operators of two operands; those of a level bind closer than those before.
_LEVELS: Sequence[dict[str, Callable[[int, int], int]]] = (
    {"||": lambda a, b: bool(a) or bool(b)}, {"&&": lambda a, b: bool(a) and bool(b)},
    {"|": operator.or_}, {"^": operator.xor}, {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _divide, "%": lambda a, b: a - b * _divide(a, b)},
)
_UNARY: dict[str, Callable[[int], int]] = {
    "!": operator.not_, "-": operator.neg, "+": operator.pos, "~": operator.invert}


def evaluate(tokens: Sequence[str]) -> int:
    """The number that a condition is; names that are left are 0, as in C."""
    words = list(tokens)
    found = _ternary(words)
    if words:
        raise ConditionError(f"{words[0]!r} is unexpected")
    return found


def _ternary(words: list[str]) -> int:
    test = _level(words, 0)
    if not words or words[0] != "?":
        return test
    words.pop(0)
    then = _ternary(words)
    _expect(words, ":")
    orelse = _ternary(words)
    return then if test else orelse


def _level(words: list[str], level: int) -> int:
    """An expression of operators of a level and closer ones."""
    if level == len(_LEVELS):
        return _operand(words)
    found = _level(words, level + 1)
    while words and words[0] in _LEVELS[level]:
        operation = _LEVELS[level][words.pop(0)]
        try:
            found = int(operation(found, _level(words, level + 1)))
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise ConditionError(str(error)) from None
    return found


def _operand(words: list[str]) -> int:
    if not words:
        raise ConditionError("a number is missing")
    word = words.pop(0)
    if word in _UNARY:
        return int(_UNARY[word](_operand(words)))
    if word == "(":
        found = _ternary(words)
        _expect(words, ")")
        return found
    if word.isidentifier():
        return int(word == "true")
    return _number(word)


def _expect(words: list[str], mark: str) -> None:
    if not words or words.pop(0) != mark:
        raise ConditionError(f"{mark!r} is missing")


def _number(word: str) -> int:
    """An integer as C writes it."""
    digits = word.rstrip("uUlL")
    try:
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        return int(digits, 8 if octal else 0)
    except ValueError:
        raise ConditionError(f"{word!r} is no integer") from None
