"""``printf`` of C bodies: its format is checked when the body is parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...language.formats import CONVERSION, KINDS, LETTERS, Kind
from ...source.resolve import Operation
from ..expressions import as_type
from ..scope import Scope
from ..tree import kind
from ..types import promote
from ..values import Typed, call, converted

__all__ = ["parse_printf"]

#: CUDA's printf takes no more.
_MOST = 32
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
            "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"}
#: Bytes of an integer, by the length that its conversion writes.
_SIZES = {"hh": 1, "h": 2, "": 4, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8}


def parse_printf(scope: Scope, node: Any, args: Sequence[Any]) -> list[ast.stmt]:
    """Parse ``printf("…", …);``: the values are converted to what the format takes."""
    if not args or not _is_text(args[0]):
        scope.refuse(node, "printf() takes a format in quotes first")
    rest = list(args[1:])
    letters: list[str] = []
    values: list[ast.expr] = []

    def conversion(found: re.Match[str]) -> str:
        if found[0].startswith("%%"):
            return "%%"
        of = _kind(scope, node, found)
        if not rest:
            scope.refuse(node, f"printf: {found[0]} has no value; give "
                               f"{len(values) + 1} or more after the format")
        given = rest.pop(0)
        if of.letter == "s":
            return _text(scope, given, found)
        letter, value, text = _number(scope, given, found, of)
        letters.append(letter)
        values.append(value)
        return text

    text = CONVERSION.sub(conversion, _decoded(scope, args[0]))
    if rest:
        scope.refuse(node, f"printf: the format takes {len(args) - 1 - len(rest)} "
                           f"values, got {len(args) - 1}")
    if len(values) > _MOST:
        scope.refuse(node, f"printf() takes at most {_MOST} values, got {len(values)}; "
                           "write several")
    name = f"printf_{len(scope.unit.outside)}"
    scope.unit.outside[f".{name}"] = Operation("print", f"{''.join(letters)}:{text}")
    return [ast.Expr(call(name, *values))]


def _is_text(node: Any) -> bool:
    return kind(node) == "Constant" and node.type == "string"


def _decoded(scope: Scope, node: Any) -> str:
    """The text that a literal of C is."""
    if not node.value.startswith('"'):
        scope.refuse(node, f"the text {node.value} has a prefix; leave it out")

    def character(found: re.Match[str]) -> str:
        word = found[1]
        if word[0] == "x" and len(word) > 1:
            code = int(word[1:], 16)
        elif word.isdigit():
            code = int(word, 8)
        elif word in _ESCAPES:
            return _ESCAPES[word]
        else:
            scope.refuse(node, f"the escape \\{word} in a text is not understood here")
        if not 0 < code < 128:
            scope.refuse(node, f"the escape \\{word} in a text is no ASCII character "
                               "but the end; write the character itself")
        return chr(code)

    return _ESCAPE.sub(character, node.value[1:-1])


def _kind(scope: Scope, node: Any, found: re.Match[str]) -> Kind:
    """The value that a conversion takes; refused where backends would differ."""
    _, width, precision, length, letter = found.groups()
    of = KINDS.get(letter or "")
    if of is None:
        scope.refuse(node, f"printf: {found[0]!r} is no conversion; there are "
                           f"{', '.join('%' + k for k in KINDS)} and %%")
    if "*" in (width or "") or "*" in (precision or ""):
        scope.refuse(node, f"printf: {found[0]} takes its width as a value, which CUDA "
                           "does not; write the number")
    if length and (length not in _SIZES or of.letter == "s" or letter == "c" or (
            of.letter == "f" and length != "l")):
        scope.refuse(node, f"printf: {found[0]} has a length that %{letter} does not "
                           "take; leave it out")
    return of


def _text(scope: Scope, node: Any, found: re.Match[str]) -> str:
    """A text in quotes, put into the format."""
    if not _is_text(node):
        scope.refuse(node, f"printf: {found[0]} takes a text in quotes; there are no "
                           "variables of text")
    flags, width, precision, *_ = found.groups()
    whole = f"%{'-' * ('-' in flags)}{width or ''}{precision or ''}s"
    return str(whole % _decoded(scope, node)).replace("%", "%%")


def _number(scope: Scope, node: Any, found: re.Match[str],
            of: Kind) -> tuple[str, ast.expr, str]:
    """The letter of a value's type, the value in it, and its conversion."""
    value = scope.typed(node)
    dtype = promote(value.dtype)
    flags, width, precision, length, letter = found.groups()
    if of.letter == "f":
        if dtype.kind != "f":
            scope.refuse(node, f"printf: {found[0]} takes a double, got {value.dtype}; "
                               + ("take .real() or .imag()" if dtype.kind == "c" else
                                  f"write %{'lld' if dtype.itemsize == 8 else 'd'}, or "
                                  "cast it"))
        letters, length = "f8", ""
    else:
        size = _SIZES[length or ""]
        if dtype.kind not in "iu" or max(size, 4) != dtype.itemsize:
            word = "a long long" if size == 8 else f"an {of.word}"
            scope.refuse(node, f"printf: {found[0]} takes {word}, got {value.dtype}; "
                               f"write {_fitting(dtype, letter)}, or cast it")
        if size < 4:  # as C prints it: rounded to so many bits
            value = as_type(scope, node, value, np.dtype(f"{of.letter}{size}"))
        letters, length = f"{of.letter}{max(size, 4)}", "ll" if size == 8 else ""
    value = as_type(scope, node, value, LETTERS[letters])
    text = "".join(t or "" for t in ("%", flags, width, precision, length, letter))
    return letters, _exact(value), text


def _exact(value: Typed) -> ast.expr:
    return converted(value, value.dtype)


def _fitting(dtype: np.dtype, letter: str) -> str:
    """The conversion that takes a type."""
    if dtype.kind == "f":
        return "%g"
    if dtype.kind == "c":
        return ".real() and %g"
    return f"%{'ll' * (dtype.itemsize == 8)}{'d' if letter == 'c' else letter}"
