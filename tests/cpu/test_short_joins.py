"""Arrays joined along a last axis of few elements: its loop is the outermost."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call
from nbfused.cpu.text.boxes import turned

RNG = np.random.default_rng(8)


def stacked(x):
    return np.stack([x*2, x + 1, np.exp(x)], -1)


def joined(x):
    return np.concatenate([x[..., 1:]*2, x[..., :1], x], -1)


def nested(x):
    pairs = np.stack([x, -x], -1)
    return np.concatenate([pairs[..., ::-1]*x[..., None], pairs[..., :1] + 1], -1)


def backwards(x):
    return nf.grad(lambda x: nf.ops.sum(np.stack([x*x, x], -1)*x[..., None]))(x)


CASES = [(f, nf.fuse(f)) for f in (stacked, joined, nested, backwards)]


@pytest.mark.parametrize(("plain", "fused"), CASES, ids=[f.__name__ for f, _ in CASES])
@pytest.mark.parametrize("shape", [(5, 3), (200, 2), (70, 4), (3, 67, 5), (40, 30, 3),
                                   (9001, 1), (4000, 8)])
@pytest.mark.parametrize("layout", ["rows", "columns", "steps", "backwards"])
def test_they_are_those_of_numpy(plain, fused, shape, layout):
    x = RNG.normal(size=shape)
    x = {"rows": x, "columns": np.asfortranarray(x), "backwards": x[::-1, ::-1],
         "steps": np.repeat(x, 2, 0)[::2]}[layout]
    expected = 3*x*x + 2*x if plain is backwards else plain(x)
    for _ in range(2):
        np.testing.assert_allclose(fused(x), expected, 1e-14, 1e-15)


@pytest.mark.parametrize(("shape", "boxes", "turns"), [
    ((1000, 2), (((0, 1000), (0, 1)), ((0, 1000), (1, 2))), True),
    ((50, 30, 3), (((0, 50), (0, 30), (0, 2)),), True),
    ((1000, 2), (((5, 9), (0, 2)),), False),  # no box cuts the rows
    ((1000, 9), (((0, 1000), (0, 1)),), False), ((60, 2), (((0, 60), (0, 1)),), False)])
def test_which_loops_are_turned(shape, boxes, turns):
    strides = tuple(np.cumprod((1, *shape[:0:-1]))[::-1].tolist())
    call = Call(shape, (0, 0, 0), (strides, (7, 1), (0,)*len(shape)), boxes=boxes)
    made, codes = turned(call, ("1", "r2", "0"))
    if not turns:
        assert (made, codes) == (call, ("1", "r2", "0"))
        return
    assert made.shape == (shape[-1], *shape[:-1])
    assert made.strides == ((1, *strides[:-1]), (7, 1), (0,)*len(shape))
    assert codes == ("s", "r2", "0")
    assert [box[0] for box in made.boxes] == [box[-1] for box in boxes]
