"""From CUDA C++ text to the C that pycparser reads.

- `conditions` computes what ``#if`` asks; `preprocessor` replaces macros.
- `reader` reads tokens and types; `respelling` turns what C++ adds to C into calls and
  names, and `names` has what the texts declare.
"""

from .names import AUTO, BITS, CAST, CUDA, LIMIT, REFERENCE, TRAIT, Captures, Spelling
from .respelling import respell

__all__ = ["AUTO", "BITS", "CAST", "CUDA", "LIMIT", "REFERENCE", "TRAIT", "Captures",
           "Spelling", "respell"]
