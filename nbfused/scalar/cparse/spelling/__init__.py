"""From CUDA C++ text to the C that pycparser reads.

- `conditions` computes what ``#if`` asks; `preprocessor` replaces macros.
- `respelling` turns what C++ adds to C into calls and names.
"""

from .respelling import AUTO, CAST, CUDA, LIMIT, REFERENCE, Captures, Spelling

__all__ = ["AUTO", "CAST", "CUDA", "LIMIT", "REFERENCE", "Captures", "Spelling"]
