"""A fixed share of the random programs; `fuzzer` by hand does as many as wanted."""

from __future__ import annotations

import pytest

from tests.scalar.autodiff import fuzzer
from tests.variants import sampled

#: Programs whose derivatives are short enough to check in a moment, but for the last.
SEEDS = (0, 1, 2, 6, 7, 9, 10, 11, 12, 13, 15, 21, 22, 25, 27, 29, 32, 33, 39, 95)
#: Programs that take seconds each.
LONG = (1, 22, 25, 33, 95)


@pytest.mark.parametrize("seed", sampled(
    SEEDS, *(seed for seed in SEEDS if seed not in LONG)))
def test_derivatives_of_a_random_program(seed, device):
    outcome = fuzzer.check(seed, device if seed % 5 == 0 else "")
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.skipped <= outcome.points*0.2


def test_few_points_are_skipped():
    """Otherwise the comparison would say little."""
    outcomes = [fuzzer.check(seed) for seed in (0, 2, 3, 4, 14, 16, 17)]
    skipped = sum(o.skipped for o in outcomes)
    assert skipped <= 0.03*sum(o.points for o in outcomes)


def test_a_wrong_derivative_is_noticed(monkeypatch):
    """With the rule of tanh changed."""
    from dataclasses import replace

    from nbfused.scalar.autodiff import activity
    from nbfused.scalar.language.vocabulary import OPS

    monkeypatch.setitem(OPS, "tanh", replace(OPS["tanh"], partials=("1.0 - y",)))
    for cached in (activity._partial, fuzzer.vjp, fuzzer.jvp):
        cached.cache_clear()
    try:
        assert any(fuzzer.check(seed).wrong for seed in range(6))
    finally:
        for cached in (activity._partial, fuzzer.vjp, fuzzer.jvp):
            cached.cache_clear()
