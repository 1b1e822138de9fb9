"""Triton kernels: one row, or one block of elements, for each program."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import triton
import triton.language as tl

__all__ = ["column_squares", "column_sums", "last_sum", "norm", "norm_gradient",
           "partial_sums", "row_squares", "softmax", "softmax_gradient", "squared_diff",
           "swish", "swish_gradient"]


@triton.jit
def swish(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, v*tl.sigmoid(v), mask=at < n)


@triton.jit
def swish_gradient(x, g, dx, n, BLOCK: tl.constexpr):
    """The gradient of swish for a cotangent `g` that is one number."""
    at = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    s = tl.sigmoid(v)
    tl.store(dx + at, tl.load(g)*s*(1 + v*(1 - s)), mask=at < n)


@triton.jit
def squared_diff(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    d = tl.load(x + at, mask=at < n) - tl.load(y + at, mask=at < n)
    tl.store(z + at, d*d, mask=at < n)


@triton.jit
def partial_sums(x, partial, n, programs, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(program*BLOCK, n, programs*BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0).to(tl.float32)
    tl.store(partial + program, tl.sum(total))


@triton.jit
def last_sum(partial, result, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(result, tl.sum(tl.load(partial + at, mask=at < n, other=0)))


@triton.jit
def row_squares(x, y, result, n, TWO: tl.constexpr, ROOT: tl.constexpr,
                BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        d = tl.load(x + row*n + at, mask=at < n, other=0).to(tl.float32)
        if TWO:
            d -= tl.load(y + row*n + at, mask=at < n, other=0).to(tl.float32)
        total += d*d
    found = tl.sum(total)
    tl.store(result + row, tl.sqrt(found) if ROOT else found)


@triton.jit
def column_squares(x, y, partial, rows, columns, TWO: tl.constexpr, deep,
                   WIDTH: tl.constexpr, HEIGHT: tl.constexpr):
    """Partial sums of squares of columns: program (c, p) adds `deep` rows."""
    column = tl.program_id(0)*WIDTH + tl.arange(0, WIDTH)
    first = tl.program_id(1)*deep
    total = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for start in range(0, deep, HEIGHT):
        inner = start + tl.arange(0, HEIGHT)
        row = first + inner
        there = ((inner < deep) & (row < rows))[:, None] & (column < columns)[None, :]
        at = row.to(tl.int64)[:, None]*columns + column[None, :]
        d = tl.load(x + at, mask=there, other=0).to(tl.float32)
        if TWO:
            d -= tl.load(y + at, mask=there, other=0).to(tl.float32)
        total += d*d
    tl.store(partial + tl.program_id(1)*columns + column, tl.sum(total, 0),
             mask=column < columns)


@triton.jit
def column_sums(partial, result, rows, columns, ROOT: tl.constexpr,
                WIDTH: tl.constexpr, HEIGHT: tl.constexpr):
    """Sums of columns of at most HEIGHT rows."""
    column = tl.program_id(0)*WIDTH + tl.arange(0, WIDTH)
    row = tl.arange(0, HEIGHT)
    there = (row < rows)[:, None] & (column < columns)[None, :]
    found = tl.sum(tl.load(partial + row[:, None]*columns + column[None, :], mask=there,
                           other=0), 0)
    tl.store(result + column, tl.sqrt(found) if ROOT else found, mask=column < columns)


@triton.jit
def norm(x, weight, bias, y, means, scales, n, eps, CENTRED: tl.constexpr,
         BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < n
    v = tl.load(x + row*n + at, mask=there, other=0).to(tl.float32)
    w = tl.load(weight + at, mask=there, other=0).to(tl.float32)
    if CENTRED:
        mean = tl.sum(v)/n
        v = tl.where(there, v - mean, 0)
        tl.store(means + row, mean)
    scale = tl.rsqrt(tl.sum(v*v)/n + eps)
    tl.store(scales + row, scale)
    v = v*scale*w
    if CENTRED:
        v += tl.load(bias + at, mask=there, other=0).to(tl.float32)
    tl.store(y + row*n + at, v, mask=there)


@triton.jit
def norm_gradient(x, weight, g, means, scales, dx, dw, db, rows, n,
                  CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a norm; program p takes every `programs`-th row."""
    program = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < n
    w = tl.load(weight + at, mask=there, other=0).to(tl.float32)
    of_weight = tl.zeros((BLOCK,), tl.float32)
    of_bias = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        v = tl.load(x + row*n + at, mask=there, other=0).to(tl.float32)
        c = tl.load(g + row*n + at, mask=there, other=0).to(tl.float32)
        scale = tl.load(scales + row)
        if CENTRED:
            v = tl.where(there, v - tl.load(means + row), 0)
            of_bias += c
        v *= scale
        of_weight += c*v
        c *= w
        d = c - v*(tl.sum(c*v)/n)
        if CENTRED:
            d -= tl.sum(c)/n
        tl.store(dx + row*n + at, d*scale, mask=there)
    tl.store(dw + program*n + at, of_weight, mask=there)
    if CENTRED:
        tl.store(db + program*n + at, of_bias, mask=there)


@triton.jit
def softmax(x, y, n, LOGGED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row*n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    v -= tl.max(v)
    e = tl.exp(v)
    total = tl.sum(e)
    tl.store(y + row*n + at, v - tl.log(total) if LOGGED else e/total, mask=at < n)


@triton.jit
def softmax_gradient(y, g, dx, n, LOGGED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(y + row*n + at, mask=at < n, other=0).to(tl.float32)
    c = tl.load(g + row*n + at, mask=at < n, other=0).to(tl.float32)
    d = c - tl.exp(v)*tl.sum(c) if LOGGED else v*(c - tl.sum(c*v))
    tl.store(dx + row*n + at, d, mask=at < n)
