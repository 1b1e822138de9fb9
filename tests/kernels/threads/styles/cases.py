"""The table of kernels in the style of Warp and Slang, with their references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nbfused as nf

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments by name, and what it leaves in some of them.

    Attributes
    ----------
    wrt
        The arguments that gradients are taken of; what a kernel changes has one too.
    reference
        Takes the arguments by name; gives an array for each of `results`.
    """

    kernel: Any
    arguments: dict[str, Any]
    results: tuple[str, ...]
    wrt: tuple[str, ...]
    dim: Any
    reference: Callable[..., Any]


def case(reference, results, dim, *, wrt="", **arguments):
    """Enter a kernel; its parameters are the names of the arguments."""
    def enter(pyfunc):
        kernel = nf.rawkernel(differentiable=True)(pyfunc)
        names = list(kernel.signature.parameters)
        assert set(names) == set(arguments), pyfunc
        CASES[pyfunc.__name__] = Case(
            kernel, {n: arguments[n] for n in names}, tuple(results.split()),
            tuple(wrt.split()), dim, reference)
        return kernel

    return enter
