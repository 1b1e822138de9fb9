"""What a launch costs."""

from __future__ import annotations

from functools import partial

import numpy as np

import nbfused as nf

from .where import WHERE, normal, place


class Launch:
    """What a call costs beside its arithmetic: ten elements."""

    param_names = ("where",)
    params = (WHERE,)
    quick = params

    def setup(self, where: str) -> None:
        x, out = place(where, normal(10), normal(10))
        op = np.negative if where == "numpy" else nf.ops.swish
        self.call = partial(op, x, out=out)
        self.call()
        nf.synchronize()

    def time_launch(self, where: str) -> None:
        self.call()

    def teardown(self, where: str) -> None:
        nf.synchronize()
