"""The gate that names pass on their way into generated text.

Names come from outside: a function's ``__name__``, the keys of a dictionary.  The text
is Python's that is run, or C++'s that is compiled, and a name that held a line's end or
a quote would become part of the program.
"""

from __future__ import annotations

import keyword
import re
import unicodedata

__all__ = ["identifier", "is_identifier", "is_safe"]

_LONGEST = 200  # characters; names of files and symbols are made of it
_OTHER = re.compile(r"\W")
_SAFE = re.compile(r"[\w.]*")


def is_identifier(name: str) -> bool:
    """Whether a name may stand in generated text as it is."""
    return name.isidentifier() and len(name) <= _LONGEST and \
        not keyword.iskeyword(name)


def is_safe(name: str) -> bool:
    """Whether a name of the IR has letters, digits, underscores and dots alone."""
    return _SAFE.fullmatch(name) is not None


def identifier(name: str) -> str:
    """`name`, or an identifier that looks like it.

    Examples
    --------
    >>> [identifier(name) for name in ("my kernel-2", "2 x", "class", "")]
    ['my_kernel_2', '_2_x', 'class_', 'unnamed']
    """
    if is_identifier(name):
        return name
    found = _OTHER.sub("_", unicodedata.normalize("NFKC", name[:_LONGEST]))[:_LONGEST]
    if not found.strip("_"):
        return "unnamed"
    if not found.isidentifier():
        found = _OTHER.sub("_", f"_{found}")
        found = found if found.isidentifier() else "unnamed"
    return f"{found}_" if keyword.iskeyword(found) else found[:_LONGEST]
