"""Random programs and their derivatives, printed for HIP, against the interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import Typed, specialize
from tests.scalar.autodiff.fuzzer import points
from tests.scalar.autodiff.random_programs import Program, compiled
from tests.scalar.printing.hip import Library, needs_gxx
from tests.variants import sampled

pytestmark = needs_gxx

SEEDS, TOGETHER = range(40), 10


@cache
def typed(seed: int, derivative: bool) -> Typed:
    """A program, or the gradient of the sum of its results."""
    f = parse(compiled(Program(seed).text(), f"hip {seed}"))
    if derivative:
        f = vjp(f, (True, True, False), (True,)*len(f.results))
    return specialize(f, tuple(a.dtype for a in arguments(seed, len(f.params))))


def arguments(seed: int, count: int) -> list[np.ndarray]:
    return list(points(seed)[:3] + points(seed)[5:])[:count]


@cache
def library(first: int) -> Library:
    """Some programs and their derivatives in one translation unit."""
    found = {f"{'vjp' if d else 'f'}_{seed}": typed(seed, d)
             for seed in range(first, first + TOGETHER) for d in (False, True)}
    return Library({name: (t, tuple(t.dtypes[p] for p in t.function.params))
                    for name, t in found.items()})


@pytest.mark.parametrize("seed", sampled(SEEDS, *SEEDS[:TOGETHER]))
@pytest.mark.parametrize("derivative", [False, True], ids=["f", "vjp"])
def test_random_programs(seed, derivative):
    t = typed(seed, derivative)
    args = arguments(seed, len(t.function.params))
    found = library(seed//TOGETHER*TOGETHER)(
        f"{'vjp' if derivative else 'f'}_{seed}", *args)
    for got, expected in zip(found, evaluate(t, *args), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape),
                                   rtol=1e-9, atol=1e-9)
