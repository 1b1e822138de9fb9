"""From CUDA C++ text to the C that pycparser reads.

- `conditions` computes what ``#if`` asks; `preprocessor` replaces macros.
- `reader` reads tokens and types; `respelling` turns what C++ adds to C into calls and
  names, `declarations` those of types and templates, `structs` what structs hold
  besides numbers; `names` has what the texts declare.
"""

from .names import (
    AUTO,
    BITS,
    CAST,
    CUDA,
    DEFAULT,
    LIMIT,
    LIST,
    MEMBERS,
    METHOD,
    NEW,
    OPERATOR,
    OPERATORS,
    REFERENCE,
    SELF,
    TRAIT,
    Captures,
    Spelling,
    plain_name,
    shown_name,
)
from .respelling import respell

__all__ = ["AUTO", "BITS", "CAST", "CUDA", "DEFAULT", "LIMIT", "LIST", "MEMBERS",
           "METHOD", "NEW", "OPERATOR", "OPERATORS", "REFERENCE", "SELF", "TRAIT",
           "Captures", "Spelling", "plain_name", "respell", "shown_name"]
