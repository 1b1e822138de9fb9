"""Which kernel a Map that reads raw arrays takes, by how it finds their elements."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.cuda.map.gathers import gathers
from nbfused.cuda.map.text import MapText
from nbfused.kernels import ElementwiseKernel
from tests.cuda.recorded import needs_compiler, recording

needs_compiler(allow_module_level=True)

N = 1 << 12
X, TABLE = np.linspace(0, N - 2, N, dtype=np.float32), np.ones(N, np.float32)
K = np.zeros(N, np.int32)

CASES = {
    "neighbours": (("T x, raw T t", "T y", "y = x - t[i > 0 ? i - 1 : 0]"),
                   (X, TABLE), 0),
    "one place": (("int32 k, raw T t", "T y", "y = t[k]"), (K, TABLE), 1),
    "two places": (("T x, raw T t", "T y", "int k = x; y = t[k] + t[k + 1]"),
                   (X, TABLE), 2),
    "by a branch": (("T x, raw T t", "T y",
                     "int k = 0; if (x > 3) k = 2; y = t[k] + t[k + 1]"),
                    (X, TABLE), 2),
    "by a loop": (("T x, raw T t", "T y", "int k = 0; while (t[k] < x && k < 9) k++; "
                   "y = t[k]"), (X, TABLE), 2),
    "a pointer": (("raw int32 k, raw T t", "T y", "y = t[k[i]]"), (K, TABLE), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_gathers(case, monkeypatch):
    text, arguments, count = CASES[case]
    seen = []
    init = MapText.__init__

    def noted(self, name, typed, *args, **options):
        seen.append(gathers(typed))
        init(self, name, typed, *args, **options)

    monkeypatch.setattr(MapText, "__init__", noted)
    kernel = ElementwiseKernel(*text, case.replace(" ", "_"))
    options = {} if text[0].count("raw") == 1 else {"size": N}
    with recording() as found:
        kernel(*arguments, **options)
    assert set(seen) == {count}
    kind = "general" if count > 1 else "vector"
    assert [k.name.rsplit("_", 1)[1] for k in found.values()] == [kind]
