"""Functions whose text is made at run time, as the package's own code.

Their file name begins with the package's folder: tools that pass over the code of a
package, such as PyTorch's compiler and debuggers, pass over them too.
"""

from __future__ import annotations

from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["PREFIX", "compiled", "define"]

#: How the file names of generated code begin.
PREFIX = f"{Path(__file__).parent.parent}/<"


def compiled(text: str, what: str) -> CodeType:
    """Code of a text; `what` it is tracebacks show as its file."""
    return compile(text, f"{PREFIX}{what}>", "exec")


def define(text: str, what: str, names: dict[str, Any]) -> None:
    """Add what a text defines to `names`, which it reads."""
    exec(compiled(text, what), names)
