"""A fixed share of the random programs; ``python -m tests.fuzz`` runs any number.

Kernels are interpreted, which takes no compiler; one program in ten is compiled.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from dataclasses import replace

import pytest

import nbfused as nf
from nbfused.kernels.fusing import results
from nbfused.kernels.fusing.program import Program as FusedProgram
from nbfused.kernels.fusing.symbols.numbers import Number
from nbfused.kernels.fusing.trace import Trace
from nbfused.scalar.language.vocabulary import OPS
from nbfused.specs.base import Spec
from tests.fuzz.check import report
from tests.fuzz.generator import draw
from tests.fuzz.rounding import run
from tests.plugin.nbfused_interpreter import InterpreterBackend
from tests.variants import sampled

COUNT, EVERY = 100, 10


@pytest.mark.parametrize("seed", sampled(range(COUNT), *range(COUNT // 5)))
def test_a_program_is_what_numpy_makes_of_it(seed):
    interpreted = nf.use_backend(InterpreterBackend())
    with interpreted if seed % EVERY else contextlib.nullcontext():
        _, text = report(seed)
    assert not text, text


def test_a_seed_is_always_the_same_program():
    assert [draw(k) for k in range(20)] == [draw(k) for k in range(20)]


def test_few_statements_are_dropped():
    """Otherwise the programs would say little."""
    lengths = [len(draw(k)[1].statements) for k in range(40)]
    assert sum(lengths) > 4 * len(lengths)


def test_rounding_is_told_from_faults():
    """The runs whose steps are disturbed differ, but not by much."""
    for name, program in map(draw, range(40)):
        if name != "refused":
            assert run(program).error is None


def is_found(fault, count=60):
    """Whether a report on one of the interpreted programs names the fault."""
    with nf.use_backend(InterpreterBackend()):
        return any(fault in report(seed, shrink=None)[1] for seed in range(count))


def forget_derivatives():
    """Other tests of this process may have made those of the same programs."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("nbfused.scalar", "nbfused.specs", "nbfused.autograd")):
            for found in list(vars(module).values()):
                getattr(found, "cache_clear", lambda: None)()
    for spec in gc.get_objects():  # those of ops live as long as the process
        if issubclass(type(spec), Spec):
            spec.__dict__.pop("_recorded", None)


@pytest.mark.variants
def test_a_wrong_derivative_is_noticed(monkeypatch):
    """With the rule of tanh changed."""
    for name in ("tanh", "sin", "cos", "exp"):
        monkeypatch.setitem(OPS, name, replace(OPS[name], partials=("1.01*y",)))
    forget_derivatives()
    try:
        assert is_found("by differences")
    finally:
        forget_derivatives()


def test_a_lost_store_is_noticed(monkeypatch):
    """With nothing stored into arguments that a fused function changes."""
    from_trace = FusedProgram.from_trace.__func__
    monkeypatch.setattr(FusedProgram, "from_trace", classmethod(
        lambda cls, trace, outputs, stores, effects=(), **options: from_trace(
            cls, trace, outputs, {}, effects, **options)))
    assert is_found("fused: value: argument")


def test_a_number_kept_from_the_first_call_is_noticed(monkeypatch):
    """With the numbers that are arguments as constants of what is traced."""
    argument = Trace.argument

    def constant(self, x, name):
        made = argument(self, x, name)
        return x if isinstance(made, Number) else made

    monkeypatch.setattr(Trace, "argument", constant)
    assert is_found("other numbers", 20)


def test_a_value_of_too_few_digits_is_noticed(monkeypatch):
    """With every program rounded to float32 on the way."""
    output = results._output
    monkeypatch.setattr(results, "_output", lambda trace, x, arrays: output(
        trace, x.astype("float32").astype(x.dtype) if getattr(x, "dtype", None) == "f8"
        and hasattr(x, "own") and x.own is None else x, arrays))
    assert is_found("fused: value: result")
