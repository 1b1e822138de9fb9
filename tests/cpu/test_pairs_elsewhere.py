"""Products of bfloat16 on processors without instructions for pairs of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nbfused.cpu.contract import launcher, matrices
from nbfused.cpu.runtime import objects
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from tests.cpu.skeletons import run_contract

BF16 = np.dtype(ml_dtypes.bfloat16)
PLAIN = Contract("mk,kn->mn", parse(lambda acc: acc))


def test_which_processors_have_them(monkeypatch):
    for features, expected in (
            ("+avx512f,+avx512bw", False), ("+avx512f,-avx512bf16,+avx512bw", False),
            ("", False), ("+avx512f,+avx512bf16,+avx512bw", True)):
        monkeypatch.setattr(objects, "host", lambda features=features: ("", features))
        assert objects.has_bfloat16_products() is expected
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert not objects.has_bfloat16_products()


@pytest.mark.parametrize("sizes", [(300, 400, 200), (4, 300, 200), (200, 300, 4)],
                         ids=str)
def test_others_take_kernels_of_float32(sizes, monkeypatch):
    seen = []
    product, narrow = launcher.bind_product, launcher.bind_direct
    monkeypatch.setattr(matrices, "has_bfloat16_products", lambda: False)
    monkeypatch.setattr(launcher, "bind_product", lambda f, *more: (
        seen.append(f.dtype == BF16), product(f, *more))[1])
    monkeypatch.setattr(launcher, "bind_direct", lambda f, dtypes, way, *more: (
        seen.append(way.paired), narrow(f, dtypes, way, *more))[1])
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 2, (m, k)), rng.integers(-1, 2, (k, n))
    got = run_contract(PLAIN, a.astype(BF16), b.astype(BF16))
    assert np.array_equal(got, (a @ b).astype(BF16))
    assert seen == [False]


TEXTS = """
import sys
import ml_dtypes
import numpy as np
from nbfused.cpu.runtime import compile, objects
name, features = objects.host()
objects.host = lambda: (name, features.replace("+avx512bf16", "-avx512bf16"))
texts, own = [], compile.compile_text
compile.compile_text = lambda text: (texts.append(text), own(text))[1]
from nbfused import ops
for m, k, n in ((90, 100, 110), (4, 300, 200)):
    x, y = (np.ones(s, ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    assert (ops.matmul(x, y) == k).all()
assert (ops.matmul(np.ones((5, 40, 50), x.dtype), np.ones((5, 50, 60), x.dtype))
        == 50).all()
assert texts
assert not [text for text in texts if "pairs" in text]
print("right")
"""


def test_others_compile_no_text_of_pairs():
    made = subprocess.run(
        [sys.executable, "-c", TEXTS], capture_output=True, text=True, check=False,
        timeout=600, cwd=Path(__file__).parents[2],
        env={**os.environ, "NBFUSED_CACHE_DISABLE": "1"})
    assert made.stdout == "right\n", made.stderr
