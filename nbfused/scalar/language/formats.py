"""Formats of C's printf: what each conversion takes, and texts for languages.

An operation ``print`` has in its attribute the types of its operands, a letter for each
in the order of `LETTERS`, a colon, and the format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ...support.records import record
from ..ir.nodes import Let

__all__ = ["CONVERSION", "KINDS", "LETTERS", "Kind", "c_string", "printed_dtypes",
           "printed_text", "python_format"]

#: A conversion: flags, width, precision, length, and its letter.
CONVERSION = re.compile(
    r"%([-+ #0]*)(\d+|\*)?(\.(?:\d+|\*)?)?(hh|h|ll|l|j|z|t|L|q)?(.)?", re.DOTALL)

#: The types that a format takes, by the letters of NumPy.
LETTERS: Mapping[str, np.dtype] = {
    letter: np.dtype(letter) for letter in ("i4", "u4", "i8", "u8", "f8")}


@record(frozen=True)
class Kind:
    """A kind of value that conversions take.

    Attributes
    ----------
    letter
        NumPy's for the kind of its number: i, u or f; s for a text.
    word
        What C calls it.
    """

    letter: str
    word: str


#: By the letter of the conversion.
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys("di", Kind("i", "int")),
    **dict.fromkeys("ouxX", Kind("u", "unsigned int")),
    "c": Kind("i", "int"), "s": Kind("s", "text in quotes"),
    **dict.fromkeys("eEfgGaA", Kind("f", "double")),
}


def printed_dtypes(s: Let) -> list[np.dtype]:
    """The dtypes of the operands of a ``print``."""
    letters = str(s.attr).partition(":")[0]
    return [LETTERS[letters[k:k + 2]] for k in range(0, len(letters), 2)]


def printed_text(s: Let) -> str:
    """The format of a ``print``."""
    return str(s.attr).partition(":")[2]


def python_format(text: str) -> str:
    """A format as Python's ``%`` takes it: without lengths, which it knows by itself.

    What Python lacks, hexadecimal floats, becomes ``%g``.
    """
    def conversion(found: re.Match[str]) -> str:
        flags, width, precision, _, letter = found.groups()
        letter = "g" if letter in ("a", "A") else letter
        return "%" + "".join(t or "" for t in (flags, width, precision, letter))

    return CONVERSION.sub(conversion, text)


def c_string(text: str) -> str:
    """A text as a literal of C."""
    return '"' + "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()) + '"'
