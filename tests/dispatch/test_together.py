"""Calls on many arrays: which streams hold them up."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.arrays import DeviceArray
from nbfused.dispatch.together import _described


@pytest.mark.parametrize(("stream", "matters"), [(None, None), (0, None), (7, 7)])
def test_the_default_stream_of_our_own_arrays_does_not_matter(stream, matters):
    """A step on arrays that were filled on stream 0 was prepared anew at each call."""
    x = DeviceArray(4096, (3,), (1,), np.dtype(np.float64), "cuda:0", stream)
    assert _described(x, "x").stream == matters
