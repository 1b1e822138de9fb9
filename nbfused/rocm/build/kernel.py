"""A kernel as it is compiled: its text and its parameters."""

from __future__ import annotations

import re
from pathlib import Path

from ...support.records import record

__all__ = ["HIP", "Kernel"]

#: The folder of the skeletons and of what they include.
HIP = Path(__file__).parents[1] / "hip"


@record(frozen=True)
class Kernel:
    """A skeleton filled with scalar functions, as C++.

    Attributes
    ----------
    name
        For profilers and messages: letters, digits and underscores.
    skeleton
        The file that `text` needs, ``"map"`` for ``hip/map.hip``.
    text
        A struct with what varies, and one ``NBF_KERNEL(…)``.
    parameters
        For each parameter the name of a dtype, after a ``*`` if it is a pointer.
    threads
        Threads per block at most.
    """

    name: str
    skeleton: str
    text: str
    parameters: tuple[str, ...]
    threads: int

    def numbered(self) -> str:
        """The text with line numbers, for error messages."""
        return "".join(f"{k:4} {line}\n"
                       for k, line in enumerate(self.text.splitlines(), 1))

    def python_line(self, number: int) -> str | None:
        """The line of Python behind line `number` of the text: ``"12: y = x"``."""
        for line in reversed(self.text.splitlines()[:number]):
            comment = re.search(r"// (\d+: .+)$", line)
            if comment:
                return comment[1]
        return None
