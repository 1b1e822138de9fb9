"""Rows on a device: every way to share a row, ragged, both ways, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.op import row, stage
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.row.long_rows import losses, rows

pytestmark = pytest.mark.cuda

DTYPES = [np.dtype(np.float32), BFLOAT16]
#: Rows and columns: a few lanes, a warp, blocks, clusters of 4 and 8 blocks, rows that
#: are not kept; the last access of some lanes outside; columns that are not aligned,
#: and clusters of these; clusters with many rows each.
SHAPES = [(33, 40), (3, 264), (301, 1000), (70, 1024), (19, 1001), (5, 4096), (5, 4104),
          (37, 20_000), (7, 9001), (3, 24_174), (2, 65_001), (3, 32_768), (2, 131_071),
          (400, 32_760), (3, 77_776), (2, 300_000)]
RNG = np.random.default_rng(0)


def normal(*shape, dtype):
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def put(x):
    return nf.array(x, device="cuda:0")


def close(found, expected, dtype):
    found = nf.to_numpy(found).astype(np.float64)
    tolerance = 1e-4 if dtype == np.float32 else 2e-2
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance*np.abs(expected).max(initial=1e-30))


def pulled(function, arrays, cotangent):
    """The result, then the gradients."""
    v = [nf.Variable(put(a), requires_grad=True) for a in arrays]
    y = function(*v)
    y.backward(put(cotangent))
    return [y.data, *(x.grad for x in v)]


@row
def log_of_powers(x):
    """Logarithm of the sum of powers, in float32 whatever the elements are."""
    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum")
    def total(x, top):
        return nf.exp(x - top)

    return np.float32(top + nf.log(total))


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("float16")])
def test_a_sum_of_powers_of_16_bits_has_the_digits_of_float32(dtype, spread):
    """Its powers are the quick ones."""
    x = (spread*normal(64, 20_000, dtype=np.float32)).astype(dtype)
    X = x.astype("f8")
    top = X.max(1, keepdims=True)
    expected = top[:, 0] + np.log(np.exp(X - top).sum(1))
    found = nf.to_numpy(log_of_powers(put(x)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=5e-7, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(shape, dtype):
    x, g = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    y, dx = pulled(ops.softmax, [x], g)
    X, G = x.astype("f8"), g.astype("f8")
    e = np.exp(X - X.max(1, keepdims=True))
    p = e/e.sum(1, keepdims=True)
    close(y, p, dtype)
    close(dx, p*(G - (p*G).sum(1, keepdims=True)), dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(shape, dtype):
    x, g = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    w, b = normal(shape[1], dtype=dtype), normal(shape[1], dtype=dtype)
    y, *gradients = pulled(ops.layer_norm, [x, w, b], g)
    X, G, W = x.astype("f8"), g.astype("f8"), w.astype("f8")
    r = 1/np.sqrt(X.var(1, keepdims=True) + 1e-5)
    h = (X - X.mean(1, keepdims=True))*r
    close(y, h*W + b.astype("f8"), dtype)
    wg = G*W
    dx = r*(wg - wg.mean(1, keepdims=True) - h*(wg*h).mean(1, keepdims=True))
    for found, expected in zip(gradients, (dx, (G*h).sum(0), G.sum(0)), strict=True):
        close(found, expected, dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(shape, dtype):
    x, w = normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype)
    X = x.astype("f8")
    r = 1/np.sqrt((X*X).mean(1, keepdims=True) + 1e-6)
    close(ops.rms_norm(put(x), put(w)), X*r*w.astype("f8"), dtype)


@pytest.mark.parametrize("view", [np.s_[::-3, :4096], np.s_[5:, 8:4008],
                                  np.s_[1::2, 1000:2024], np.s_[:, 3:4099]], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_rows_that_lie_apart(view, dtype):
    x, w = normal(41, 5000, dtype=dtype), normal(5000, dtype=dtype)
    X, W = x[view].astype("f8"), w[view[1]].astype("f8")
    r = 1/np.sqrt((X*X).mean(1, keepdims=True) + 1e-6)
    close(ops.rms_norm(put(x)[view], put(w)[view[1]]), X*r*W, dtype)
    r = 1/np.sqrt(X.var(1, keepdims=True) + 1e-5)
    expected = (X - X.mean(1, keepdims=True))*r*W + W
    close(ops.layer_norm(put(x)[view], put(w)[view[1]], put(w)[view[1]]), expected,
          dtype)


@pytest.mark.parametrize("columns", [1024, 4096, 32_768])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_larger_than_the_cache(columns, dtype):
    """What they are read with differs, the results do not."""
    few = (1 << 17)//columns
    x, g = (normal(few, columns, dtype=dtype) for _ in range(2))
    times = (160 << 20)//x.nbytes

    def results(x, g):
        made = [*pulled(ops.softmax, [x], g), ops.rms_norm(put(x), put(x[0]))]
        return [nf.to_numpy(y).view(f"u{x.itemsize}") for y in made]

    large = results(*(np.tile(a, (times, 1)) for a in (x, g)))
    for many, once in zip(large, results(x, g), strict=True):
        assert (many.reshape(times, *once.shape) == once).all()


@pytest.mark.parametrize("shape", [
    (33, 40), (70, 1024), (37, 4100), (300, 4708), (41, 6144), (35, 8200), (70, 9216),
    (34, 12_008), (33, 16_400), (37, 20_000), (3, 77_776)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy(shape, dtype):
    rows, columns = shape
    x, labels = normal(*shape, dtype=dtype), RNG.integers(0, columns, rows)
    labels[0] = columns - 1
    v = nf.Variable(put(x), requires_grad=True)
    loss = ops.cross_entropy(v, put(labels), label_smoothing=0.1)
    loss.backward()
    X = x.astype("f8")
    logp = X - X.max(1, keepdims=True)
    logp -= np.log(np.exp(logp).sum(1, keepdims=True))
    target = 0.9*(np.arange(columns) == labels[:, None]) + 0.1/columns
    close(loss.data, -(target*logp).sum(1).mean(), dtype)
    close(v.grad, (np.exp(logp) - target)/rows, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_and_special_values(dtype):
    def check(name, found, expected):
        limit = 1e-5 if dtype == np.float32 else 8e-3
        np.testing.assert_allclose(nf.to_numpy(found).astype("f8"), expected, limit,
                                   limit, err_msg=name)

    rows(check, (40, 1001, 20_000, 50_257, 77_776, 128_256, 300_000), dtype, put)


@pytest.mark.parametrize("columns", [4096, 128_256, 50_257])
def test_a_label_that_is_no_column_is_nan(columns):
    labels = np.array([-1, -7, columns, 2**40, -2**40, 5, 2**32 + 5])
    x = normal(len(labels), columns, dtype=BFLOAT16)
    v = nf.Variable(put(x), requires_grad=True)
    loss = ops.cross_entropy(v, put(labels), reduction="none", ignore_index=-7)
    found = nf.to_numpy(loss.data).astype("f8")
    np.testing.assert_array_equal(np.isnan(found), [1, 0, 1, 1, 1, 0, 1])
    assert found[1] == 0
    np.testing.assert_allclose(found[5], losses(x, labels, -7)[5], 8e-3)


@pytest.mark.parametrize("columns", [4096, 128_256])
def test_logits_of_minus_infinity_leave_classes_out(columns):
    x, labels = normal(6, columns, dtype=np.float32), np.arange(6)
    x[:, 10:columns - 10] = -np.inf
    v = nf.Variable(put(x), requires_grad=True)
    loss = ops.cross_entropy(v, put(labels), reduction="sum")
    loss.backward()
    close(loss.data, losses(x, labels, -1).sum(), np.float32)
    p = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[labels, labels] -= 1
    close(v.grad, p, np.float32)


@row
def largest(x):
    @stage("max")
    def top(x):
        return x

    return top


@row
def smallest(x):
    @stage("min")
    def low(x):
        return x

    return low


@pytest.mark.parametrize("columns", [40, 1000, 4096, 4104, 16_384])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
def test_the_largest_and_the_smallest_of_16_bit_floats(columns, dtype):
    x = normal(70, columns, dtype=dtype)
    x[0], x[1], x[2, 7], x[3, 8] = -np.inf, np.inf, np.nan, -np.nan
    x[4, columns - 1], x[5], x[6, 0], x[7, 1] = 99, -0.5, np.inf, -np.inf
    for function, expected in ((largest, np.max), (smallest, np.min)):
        found = nf.to_numpy(function(put(x)))
        np.testing.assert_array_equal(found.astype("f4"), expected(x.astype("f4"), 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_element_is_written(shape):
    out = put(np.full(shape, np.nan, np.float32))
    ops.softmax(put(normal(*shape, dtype=np.float32)), out=out)
    np.testing.assert_allclose(nf.to_numpy(out).sum(1, dtype="f8"), 1, rtol=1e-4)


@pytest.mark.parametrize("columns", [1024, 32_768])
def test_the_same_bits_every_time(columns):
    x = normal(600, columns, dtype=np.float32)
    seen = {b"".join(nf.to_numpy(a).tobytes() for a in pulled(
        ops.layer_norm, [x, x[0], x[1]], x)) for _ in range(4)}
    assert len(seen) == 1


@row
def shares(x):
    @stage("sum")
    def total(x):
        return x

    return x/total


@pytest.mark.parametrize("columns", [64, 4096])
def test_a_division_by_what_a_row_has_one_of_is_exact_to_the_last_place(columns):
    x = RNG.integers(-50, 100, (500, columns)).astype(np.float32)  # exact sums
    expected = x.astype("f8")/x.sum(1, keepdims=True)
    found = nf.to_numpy(shares(put(x)))
    last = np.spacing(np.abs(expected).astype(np.float32))
    assert (np.abs(found - expected) <= 0.51*last).all()


@row(divisor="row")
def over(x, divisor):
    return x/divisor


@pytest.mark.parametrize("columns", [64, 1001, 4096])
def test_quotients_of_what_is_no_plain_number(columns):
    values = np.float32([0, 1, 2.5, 1e-45, 1e-38, 1e-30, 1e30, 3e38, np.inf, np.nan])
    values = np.concatenate([values, -values])
    x = np.resize(values, columns)[None].repeat(len(values), 0)
    with np.errstate(all="ignore"):
        rounded, exact = x/values[:, None], x.astype("f8")/values[:, None]
    found = nf.to_numpy(over(put(x), put(values)))
    negative = np.signbit([found, rounded])[:, ~np.isnan(rounded)]
    np.testing.assert_array_equal(*negative)
    np.testing.assert_allclose(
        found, np.where(np.isfinite(rounded), exact, rounded),
        rtol=0.51*2**-23, atol=np.spacing(np.float32(0)))


def test_dividing_by_zero_and_by_infinity():
    x = np.array([[1, -1, 0, 0], [np.inf, 1, 2, 0]], np.float32).repeat(16, 1)
    found = nf.to_numpy(shares(put(x)))
    with np.errstate(all="ignore"):
        expected = x/x.sum(1, keepdims=True)
    np.testing.assert_array_equal(found, expected)


def test_infinities_and_nan():
    x = normal(4, 32_768, dtype=np.float32)
    x[1, 5], x[2, 9] = np.inf, np.nan
    x[3] = -np.inf
    x[3, 100] = 0
    y = nf.to_numpy(ops.softmax(put(x)))
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1]).all()
    assert np.isnan(y[2]).all()
    assert y[3, 100] == 1
    assert y[3].sum() == 1
