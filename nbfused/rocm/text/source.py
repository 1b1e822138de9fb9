"""Writing a kernel's text: operands, parameters, the struct that a skeleton takes.

Every kernel has the same order of parameters: pointers, extents, strides, numbers.
A parameter is a word of `w` (``hip/kernel.h``), found by its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from ...scalar.printing.hip import decode, statements, storage_type, stored
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.types import Typed
from ...support.dtypes import storage
from ..build.kernel import Kernel

__all__ = ["Source", "encoded", "evaluate"]


class Source:
    """The text of one kernel, line by line, and its parameters.

    Parameters
    ----------
    name
        Of the kernel.
    skeleton
        The file in ``hip`` that it needs.
    """

    def __init__(self, name: str, skeleton: str) -> None:
        self.name, self.skeleton = name, skeleton
        self._kinds: list[str] = []
        self._words = 0
        self._lines: list[str] = []
        self._depth = 0

    def _parameter(self, kind: str) -> int:
        word = self._words
        self._kinds.append(kind)
        self._words += 2 if kind.startswith("complex") else 1
        return word

    def pointer(self, dtype: np.dtype) -> int:
        """Declare an address of elements of `dtype`; its word."""
        return self._parameter("*" + storage(dtype))

    def integers(self, count: int) -> int:
        """Declare int64 parameters, after all pointers; the word of the first."""
        first = self._words
        for _ in range(count):
            self._parameter("int64")
        return first

    def scalar(self, dtype: np.dtype) -> str:
        """Declare a call-time number, after all integers; the text of its value."""
        kind = storage(dtype)
        word = self._parameter(kind)
        if kind.startswith("complex"):
            return f"w.{kind}({word})"
        return decode(dtype, f"w.template number<{storage_type(dtype)}>({word})")

    def __call__(self, *lines: str) -> None:
        """Append lines at the present depth."""
        self._lines += ["  " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str, end: str = "}") -> Iterator[None]:
        """Lines between braces after `head`."""
        self(f"{head} {{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self(end)

    def kernel(self, threads: int, call: str) -> Kernel:
        """The kernel that was written; `call` runs the skeleton on `w`."""
        self(f"NBF_KERNEL({self._words}, {threads}, {call})")
        return Kernel(self.name, self.skeleton, "\n".join(self._lines) + "\n",
                      tuple(self._kinds), threads)


def encoded(source: np.dtype, target: np.dtype, text: str) -> str:
    """A computed value of logical dtype `source` as an element stored as `target`."""
    return stored(compute_dtype(source), target, text)


def evaluate(typed: Typed, arguments: Mapping[str, object], prefix: str) -> tuple[
        list[str], list[str]]:
    """Statements that evaluate `typed`, and the names of its results."""
    results = [f"{prefix}{k}" for k in range(len(typed.results))]
    return statements(typed, arguments, results,  # type: ignore[arg-type]
                      prefix=prefix), results
