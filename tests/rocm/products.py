"""Contractions that the tests of ROCm share, on integers that every dtype holds."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nbfused.backend import Signature
from nbfused.rocm.text.contract import ContractText
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import types_of

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(0)


def relu_of_sum(acc, bias):
    return max(acc + bias, 0.0)


def two_results(acc, d, c):
    return (acc + d)*c, acc


PLAIN = Contract("mk,kn->mn", identity())
BIAS = Contract("mk,kn->mn", parse(relu_of_sum), ("element",))
TWO = Contract("mk,kn->mn", parse(two_results), ("element", "scalar"))
HALVED = Contract("mk,kn->mn", identity(), (),
                  (parse(lambda x: max(x, 0.0)), parse(lambda x: x*0.5)))
LAYOUTS = {
    "c": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "strided": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[..., ::-3, ::2],
}


def integers(shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


def exact(a, b):
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


def kernel(spec, dtype, tile, ranks=(1, 1, 1, 1), codes="s1", **options):
    """One kernel's text, every operand with the stride codes `codes`."""
    inputs = types_of([np.zeros(1, dtype)]*(2 + spec.kinds.count("element"))
                      + [0.5]*spec.kinds.count("scalar"))
    outputs = spec.result_types(inputs)
    arrays = 2 + spec.kinds.count("element") + len(outputs)
    signature = Signature(inputs, outputs, ranks, (codes,)*arrays)
    return ContractText(spec.name, spec.typed(inputs, outputs), signature).kernel(
        tile, **options)
