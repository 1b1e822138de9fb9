"""The compiled kernels of one launcher, by their plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Programs"]

P = TypeVar("P", bound=Hashable)
G = TypeVar("G")
K = TypeVar("K")


class Programs(dict[P, G], Generic[P, G]):
    """Kernels by their plans, each written when it is asked for.

    Parameters
    ----------
    program
        What makes a kernel's text a program.
    write
        The kernel of a plan.
    """

    def __init__(self, program: Callable[[K], G], write: Callable[[P], K]) -> None:
        super().__init__()
        self._program, self._write = program, write

    def __missing__(self, plan: P) -> G:
        made = self[plan] = self._program(self._write(plan))
        return made
