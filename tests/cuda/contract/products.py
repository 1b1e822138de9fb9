"""Products that the tests of several rungs share."""

from __future__ import annotations

from functools import cache

import numpy as np
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused.backend import Signature
from nbfused.cuda.contract import launcher
from nbfused.cuda.contract.sums.vectors import VectorLauncher
from nbfused.cuda.contract.tall import TallLauncher
from nbfused.cuda.contract.text import ContractText
from nbfused.registry.backends import registry
from nbfused.scalar.language import names as language
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract


def integers(seed, *shape):
    """Small enough for every sum here to be exact in float32."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64)


def placed(x, dtype):
    """In C order: CuPy, which may make the array, would keep a transposed one so."""
    return nf.array(np.ascontiguousarray(x, dtype), device="cuda")


def whole_sums(monkeypatch):
    """No sum is split over several launches, which would be other calls."""
    monkeypatch.setattr(launcher, "parts_of", lambda *facts: None)


def prepared_anew(monkeypatch):
    """Calls like those of other tests choose their kernels again: bound ones do not."""
    monkeypatch.setattr(registry, "epoch", object())


def no_other_ways(monkeypatch):
    """Narrow and tall products, few results and vectors stay with what is tested."""
    monkeypatch.setattr(launcher.ContractLauncher, "_few", lambda self, *call: False)
    monkeypatch.setattr(launcher, "SHALLOW", 0)
    monkeypatch.setattr(launcher, "NARROW", 0)
    monkeypatch.setattr(launcher, "UNEVEN", 0)
    monkeypatch.setattr(VectorLauncher, "takes", lambda self, call: False)
    monkeypatch.setattr(TallLauncher, "takes", lambda self, *call: False)


def biased_relu(total, bias):
    return language.relu(total + bias)


def biased_gelu(total, bias):
    return language.gelu_erf(total + bias)


@cache
def layer(dtype=bfloat16, precision=None, epilogue=biased_gelu):
    """The text of a layer."""
    x = np.dtype(dtype)
    spec = Contract("mk,kn->mn", parse(epilogue), ("element",), precision=precision)
    signature = Signature((x, x, x), (x,), (0, 1, 1, 1), ("s1", "s1", "01", "s1"))
    typed = spec.typed(signature.inputs, signature.outputs)
    return ContractText(spec.name, typed, signature)
