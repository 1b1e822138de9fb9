"""Benchmarks of compilation: the first call of a kernel with an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from .where import enabled

#: Programs that leave a call without arguments as ``call``.
OPS = {
    "swish": "call = lambda: nf.ops.swish(x)",
    "layer_norm": "call = lambda: nf.ops.layer_norm(x)",
    "linear": "call = lambda: nf.ops.linear(x, x, x[0], activation='gelu')",
    "softmax, both ways": "call = lambda: nf.ops.sum(nf.ops.softmax("
                          "nf.Variable(x, requires_grad=True))).backward()",
}
_PROGRAM = """
import time
import numpy as np
import nbfused as nf
x = nf.array(np.ones((64, 64), np.float32), device={device!r})
nf.ops.negative(x)  # the compiler is imported, and has run once
{call}
def seconds():
    begin = time.perf_counter()
    call()
    nf.synchronize()
    return time.perf_counter() - begin
print(seconds() - seconds())
"""


class Compile:
    """Seconds that the first call takes beyond the second, with an empty cache."""

    param_names = ("where", "op")
    params = (("cpu", "cuda:0"), tuple(OPS))
    quick = (("cpu", "cuda:0"), ("swish",))
    timeout = 300

    def setup(self, where: str, op: str) -> None:
        enabled(where)

    def track_compile(self, where: str, op: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM.format(device=where, call=OPS[op])],
                env={**os.environ, "NBFUSED_CACHE_DIR": folder}, check=True, text=True,
                capture_output=True)
        return float(done.stdout)

    track_compile.unit = "s"  # type: ignore[attr-defined]
