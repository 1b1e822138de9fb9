"""Run ops of each skeleton under Numba's CUDA simulator; a line for each failure.

A program of its own: Numba decides at import whether it simulates, and then compiles
nothing.  ``python -m tests.cuda.simulation.simulate [op or part ...]``, all ops if none
is named.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import nbfused as nf
from nbfused.testing.conformance import Check, checks
from tests.cuda.simulation import simulated
from tests.cuda.simulation.beyond import PARTS, Beyond

#: Elements of an operand above which a simulated call takes seconds.
LARGE = 700


def chosen(ops: tuple[str, ...]) -> list[Check]:
    """The first check of each op, kind, dtype and layout; special values once."""
    found: dict[tuple[str, ...], Check] = {}
    for check in checks(ops or None):
        if max(map(np.prod, check.shapes), default=0) <= LARGE:
            key = (check.op, check.kind, check.dtype.name, check.layout)
            found.setdefault(key, check)
    return list(found.values())


def main(given: tuple[str, ...]) -> None:
    warnings.simplefilter("ignore")
    beyond = Beyond()
    parts = [part for part in PARTS if part in given]
    ops = tuple(op for op in given if op not in PARTS)
    with nf.use_backend(simulated.simulate()):
        for part in parts:
            getattr(beyond, part)()
        for check in chosen(ops) if ops or not parts else ():
            try:
                check("cpu")
            except Exception as error:
                beyond.failures.append(f"{check}: {type(error).__name__}: {error}")
    for failure in beyond.failures:
        print(failure.replace("\n", " "))
    launched = simulated.LAUNCHED
    print(f"{len(set(launched))} kernels, {len(launched)} launches, "
          f"{len(beyond.failures)} failures")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
