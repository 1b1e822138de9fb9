"""Sizes that the conformance suite does not have, for the simulated device."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

import nbfused as nf
from nbfused.autograd.tape import apply
from nbfused.cuda.contract import tall
from nbfused.cuda.contract.sums import parts as contract_parts
from nbfused.cuda.map import dense as map_dense
from nbfused.cuda.map import tile as map_tile
from nbfused.cuda.map import tile_pairs as map_tile_pairs
from nbfused.cuda.reduce import folded
from nbfused.cuda.reduce import launcher as reduce
from nbfused.cuda.row import tiled
from nbfused.cuda.row.split import choice
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cuda.row import long_rows, split_rows
from tests.cuda.simulation import simulated
from tests.cuda.simulation.gathers import Gathers

__all__ = ["PARTS", "Beyond"]

#: The methods of `Beyond` that a command names.
PARTS = ("reductions", "maps", "rows", "long", "split", "split_more", "products",
         "gathers", "repeats")


def divided(index, x, by):
    return x + index % by + index // by


@nf.contraction("mk,kn->mn")
def residual(total, other, s, t):
    return total * s + other * t, total * total


class Beyond(Gathers):
    """Calls of several blocks, chunks and whole accesses; notes what is wrong."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.rng = np.random.default_rng(0)

    def check(self, name, found, expected):
        if not np.allclose(nf.to_numpy(found), expected, rtol=1e-4, atol=1e-4,
                           equal_nan=True):
            self.failures.append(name)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def reductions(self):
        check, x = self.check, self.floats(300, 32)
        check("chunks of columns", nf.ops.sum(x, axis=0), x.sum(0))
        check("chunks of rows", nf.ops.sum(x[:9].reshape(1, -1), axis=1), x[:9].sum())
        check("chunks that the last block merges", nf.ops.sum(x.ravel()[:4100]),
              x.ravel()[:4100].sum())
        check("again, in the same memory", nf.ops.max(x[:140].ravel()), x[:140].max())
        folded.LEAST = 600
        for rows, columns in ((640, 3), (701, 7), (340, 15)):
            narrow = self.floats(rows, columns)
            check("rows of a few columns", nf.ops.mean(narrow, axis=0), narrow.mean(0))
            check("their variance", nf.ops.var(narrow, axis=0), narrow.var(0))
            check("of those that are not aligned", nf.ops.max(narrow[1:], axis=0),
                  narrow[1:].max(0))
            narrow[rows - 1] = narrow[3]
            check("where the largest is", nf.ops.argmax(narrow, axis=0),
                  narrow.argmax(0))
        cube = self.floats(5, 3, 52)
        check("axes that are not neighbours", nf.ops.sum(cube, axis=(0, 2)),
              cube.sum((0, 2)))
        check("the same, of rows that are not whole accesses",
              nf.ops.max(cube[..., :50], axis=(0, 2)), cube[..., :50].max((0, 2)))
        for rows, columns in ((9, 20), (5, 158), (40, 7), (3, 1301), (2, 6001)):
            some = self.floats(rows, columns + 1)
            for own in (some[:, 1:], np.ascontiguousarray(some[:, 1:])):
                check(f"rows of {columns}", nf.ops.var(own, axis=1), own.var(1))
                check("where their largest is", nf.ops.argmax(own, axis=1),
                      own.argmax(1))
        four = self.floats(3, 5, 4, 12)
        for axes in ((0, 2), (1, 3), (0, 1, 3), (0, 3)):
            check(f"several loops of each kind: {axes}", nf.ops.var(four, axis=axes),
                  four.var(axes))
        wide = self.floats(150, 40)
        check("chunks of ragged columns", nf.ops.var(wide, axis=0), wide.var(0))
        check("columns that are not aligned", nf.ops.max(x[:, 1:], axis=0),
              x[:, 1:].max(0))
        with patch.object(reduce, "MOST_BLOCKS", 0), \
                patch.object(reduce, "kernel", wraps=reduce.kernel) as written:
            for dtype in (np.float16, np.float64, np.int8):
                self._at_once(dtype)
        plans = [call.args[1] for call in written.call_args_list]
        if not {1, 2, 5} <= {plan.ahead for plan in plans if plan.once}:
            self.failures.append("no lanes start all of their accesses at once")

    def _at_once(self, dtype):
        """Lanes with few accesses, of which the last may not be there."""
        for rows, columns in ((3, 8), (5, 16), (7, 40), (40, 7), (3, 200), (2, 264)):
            some = np.rint(3*self.floats(rows, columns + 1)).astype(dtype)
            for own in (some[:, 1:], np.ascontiguousarray(some[:, 1:])):
                self.check(f"few accesses of {columns}", nf.ops.sum(own, axis=1),
                           own.sum(1))
                self.check("their smallest", nf.ops.min(own, axis=1), own.min(1))
                self.check("where it is", nf.ops.argmin(own, axis=1), own.argmin(1))
        four = np.rint(3*self.floats(3, 5, 4, 8)).astype(dtype)
        for axes in ((0, 2), (1, 3), (0, 1, 3)):
            self.check(f"few of several loops: {axes}", nf.ops.min(four, axis=axes),
                       four.min(axes))

    def maps(self):
        check, x = self.check, self.floats(499)
        check("misaligned", nf.ops.swish(x[1:]), x[1:]/(1 + np.exp(-x[1:])))
        map_tile.CACHED = map_tile.HELD = 0
        for rows, columns in ((64, 64), (70, 33), (17, 100)):
            p, q = self.floats(rows, columns), self.floats(columns, rows)
            check("an input that lies across", nf.ops.subtract(p.T, q), p.T - q)
            result = np.full_like(p, np.nan)
            nf.ops.subtract(q, p.T, out=result.T)
            check("results that lie across", result, q.T - p)
        map_tile_pairs.LEAST = 1
        half, lines = (self.floats(*shape).astype(np.float16)
                       for shape in ((80, 120), (70, 80)))
        check("across, in pairs", nf.ops.add(half.T[:70], lines), half.T[:70] + lines)
        self._columns()
        self._dense()
        self._whole()
        cube = self.floats(20, 3, 33)
        for other in (cube[:, :1], cube[:1], cube[:, :, :1], cube[:, ::-1, ::-1]):
            check("places of operands with other strides", nf.ops.add(cube, other),
                  cube + other)
        table, at = self.floats(5, 150), np.array([[3, -1, 0], [0, 4, 4]])
        check("rows that are gathered", nf.ops.take(table, at), table[at])
        v, g = nf.Variable(table, requires_grad=True), self.floats(2, 3, 150)
        nf.ops.take(v, at).backward(g)
        wanted = np.zeros_like(table)
        np.add.at(wanted, at, g)
        check("their derivative", v.grad, wanted)
        strided, flat = self.floats(6, 80)[:, :70], np.arange(420).reshape(6, 70)
        for by in (5, 70, 140, 420, 1000, -3):
            (found,) = apply(Map(parse(divided), ("index", "element", "scalar")),
                             [strided, by])
            check(f"an index divided by {by}", found, strided + flat % by + flat // by)
        cube, other = self.floats(20, 3, 33), self.floats(3, 33, 20)
        check("inputs that lie across, of a rank above 2",
              nf.ops.subtract(cube.transpose(1, 2, 0), other),
              cube.transpose(1, 2, 0) - other)

    def _dense(self):
        """Results that are one run of memory: rows end in the midst of accesses."""
        map_dense.LEAST, least = 1, map_dense.LEAST
        for columns in (5, 8, 33):
            x, row, column = (self.floats(*shape) for shape in (
                (7, 3, columns), (1, 1, 2*columns), (7, 3, 1)))
            y, half = row[..., ::2], x.astype(np.float16)
            self.check("a row of another stride", nf.ops.add(x, y), x + y)
            self.check("a column", nf.ops.add(x, column), x + column)
            self.check("neither", nf.ops.multiply(column, y), column*y)
            self.check("several of each", nf.ops.add(x[:, :1], y[0, :, :1] + column),
                       x[:, :1] + (y[0, :, :1] + column))
            self.check("of 16 bits", nf.ops.multiply(half, half[:1, :1]),
                       half*half[:1, :1])
            self.check("backwards", nf.ops.add(x, x[:, ::-1, ::-1]),
                       x + x[:, ::-1, ::-1])
            self.check("a product of one term", nf.ops.matmul(column, x[:, :1]),
                       column*x[:, :1])
        map_dense.LEAST = least

    def _whole(self):
        """Whole accesses of several loops, by the block and what is left over."""
        for shape in ((9, 64), (5, 7, 32), (3, 1, 5, 16), (2, 3, 4, 3, 8)):
            x, row, column, middle = (self.floats(*own) for own in (
                shape, (1, shape[-1]), (*shape[:-1], 1), (shape[0], 1, *shape[2:])))
            for other in (row, column, middle, x[::-1], x[:1]):
                self.check(f"whole accesses of {shape}", nf.ops.subtract(x, other),
                           x - other)
            self.check("of outer products", nf.ops.multiply(column, row), column*row)
            self.check("of 16 bits", nf.ops.multiply(
                column.astype(np.float16), row.astype(np.float16)), np.multiply(
                    column.astype(np.float16), row.astype(np.float16)))
            wide = np.full((*shape[:-1], 2*shape[-1]), np.nan, np.float32)
            nf.ops.add(x, column, out=wide[..., :shape[-1]])
            self.check("of results that are no run", wide[..., :shape[-1]], x + column)

    def _columns(self):
        """Columns side by side: whole accesses, a rest, some that are not aligned."""
        turned = nf.elementwise(lambda x, y, z, w: (w*y - z, z*x + y, x - w*y, w*z))
        for rows, dtype in ((1025, np.float32), (1030, np.float16), (3, np.float32)):
            p, w = (np.rint(2*self.floats(*shape)).astype(dtype)
                    for shape in ((rows, 3), (rows,)))
            q, last = np.full((rows, 3), np.nan, dtype), np.full(rows, np.nan, dtype)
            turned(*p.T, w, out=(*q.T, last))
            x, y, z = p.T
            self.check(f"columns of {rows} rows", q, np.stack(
                [w*y - z, z*x + y, x - w*y], -1))
            self.check("a result beside them", last, w*z)
            self.check("columns of which some are left out", turned(x, y, y, w)[2],
                       x - w*y)
        flat = self.floats(3001)
        p = flat[1:].reshape(-1, 3)
        self.check("columns that begin inside an access", turned(*p.T, flat[1:1001])[1],
                   p[:, 2]*p[:, 0] + p[:, 1])
        taken = [name for name in simulated.LAUNCHED if name.endswith("map_columns")]
        if len(taken) != 4:
            self.failures.append(f"columns side by side: {len(taken)} of 4 launches")

    def rows(self):
        # Not aligned, lanes idle, several accesses; many rows for a block only once.
        # Few elements: more groups of a block than one thread adds.
        for rows, columns in ((20, 32), (11, 31), (5, 40), (3, 100), (3, 260),
                              (300, 3), (150, 4), (70, 11)):
            x, cotangent = self.floats(rows, columns), self.floats(rows, columns)
            u = [nf.Variable(a, requires_grad=True) for a in (x, x[0], x[1])]
            nf.ops.layer_norm(*u).backward(cotangent)
            scaled = x - x.mean(1, keepdims=True)
            scaled /= np.sqrt(x.var(1, keepdims=True) + 1e-5)
            self.check(f"sums over rows of {columns}", u[1].grad,
                       (cotangent*scaled).sum(0))
            self.check(f"other sums over rows of {columns}", u[2].grad,
                       cotangent.sum(0))
            e = np.exp(x - x.max(1, keepdims=True))
            self.check(f"softmax of {columns}", nf.ops.softmax(x),
                       e/e.sum(1, keepdims=True))
        for x in (self.floats(9, 140)[:, ::2], self.floats(70, 9).T):
            e = np.exp(x - x.max(1, keepdims=True))
            self.check("softmax of elements that lie apart", nf.ops.softmax(x),
                       e/e.sum(1, keepdims=True))
        long = self.floats(3, 1600)
        g = [nf.Variable(a, requires_grad=True) for a in (long, long[0])]
        nf.ops.rms_norm(*g).backward(long)
        scale = np.sqrt((long**2).mean(1, keepdims=True))
        self.check("sums over rows in the workspace", g[1].grad,
                   (long*long/scale).sum(0))

    def long(self):
        # Kept, several at once, not aligned.
        long_rows.rows(self.check, (40, 2604, 2001), np.float32)

    def split(self):
        """Few rows in chunks, rows side by side; then a thread for each."""
        self._split({"split": [((2, 1301), 1), ((67, 40), 0)],
                     "thread": [((3, 5, 18), 1)],
                     "tile": [((130, 4), 1), ((3, 17), 1)],
                     "map": [((130, 3), 1), ((67, 8), 1)]})

    def split_more(self):
        """Both at once, one row; more threads of which each has a row."""
        self._split({"split": [((5, 7, 18), 1), ((1, 133), 1)],
                     "thread": [((7, 70), 0)], "tile": [((70, 5), 1)]})

    def _split(self, chosen):
        def check(name, found, expected, scale):
            self.check(f"{skeleton}: {name}", found/scale, expected/scale)

        rules = choice.RULES
        for skeleton, cases in chosen.items():
            choice.RULES = (choice.Rule(
                skeleton, "forced", lambda f, of=skeleton: f.dense if of == "tile"
                else f.whole if of == "map" else not (f.sums and of == "thread")),
                *rules)
            for shape, axis in cases:
                split_rows.rows(check, shape, axis, np.float32)
            if skeleton == "tile":
                self._tiles_that_begin_anywhere((1, np.float32), (1, np.float64))
                tiled.BLOCKS = 0  # several rows of a thread
                self._tiles_that_begin_anywhere((3, np.float16))
                self._losses_of_tiles()
                tiled.BLOCKS = 4
        choice.RULES = rules

    def _losses_of_tiles(self):
        """Rows from the last one on."""
        x, labels = self.floats(270, 5), np.arange(270) % 5
        v, g = nf.Variable(x, requires_grad=True), self.floats(270)
        nf.ops.cross_entropy(v, labels, reduction="none").backward(g)
        e = np.exp(x - x.max(1, keepdims=True))
        wanted = e/e.sum(1, keepdims=True)
        wanted[np.arange(270), labels] -= 1
        self.check("tiles from the last row on", v.grad, wanted*g[:, None])

    def _tiles_that_begin_anywhere(self, *cases):
        """Inputs and results that begin at other places of an access."""
        for start, dtype in cases:
            size = 140*9 + 8
            flat, other, made = (self.floats(size).astype(dtype) for _ in range(3))
            x, r, y = (a[s:s + 140*9].reshape(140, 9) for a, s in (
                (flat, start), (other, start + 1), (made, 0)))
            before = made[140*9:].copy()
            nf.ops.softmax(x, out=y)
            e = np.exp(x.astype(np.float64))
            rtol = 2e-3 if dtype is np.float16 else 1e-4
            self.check(f"tile from {start} on", np.isclose(
                y, e/e.sum(1, keepdims=True), rtol=rtol), True)
            self.check("what lies behind the results", made[140*9:], before)
            for same in (x[:1], x[:, :1]):
                many = np.broadcast_to(same, x.shape)
                e = np.exp(many.astype(np.float64))
                self.check(f"rows of {same.shape}", np.isclose(
                    nf.ops.softmax(many), e/e.sum(1, keepdims=True), rtol=rtol), True)
            total, _ = nf.ops.add_rms_norm(x, r, np.ones(9, dtype))
            s = x.astype(np.float64) + r
            self.check(f"two inputs from {start} on", np.isclose(
                total, s/np.sqrt((s**2).mean(1, keepdims=True) + 1e-5), rtol=2*rtol,
                atol=rtol), True)

    def products(self):
        check, a, b = self.check, self.floats(65, 40), self.floats(40, 70)
        check("several tiles", nf.ops.matmul(a, b), a @ b)
        check("several tiles, transposed", nf.ops.matmul(b.T, a.T), (a @ b).T)
        i, j = (np.rint(3*x).astype(np.int32) for x in (a, b))
        check("several tiles of integers", nf.ops.matmul(i, j), i @ j)
        check("packed factors", nf.ops.contract("mk,kn->mn", a, b, prologue_a="relu",
                                                prologue_b="swish"),
              np.maximum(a, 0) @ (b/(1 + np.exp(-b))))
        self._narrow()
        self._tall()
        contract_parts.LONG, contract_parts.MANY = 1, 2
        contract_parts.ENGINES = {
            name: contract_parts.Engine(e.rate, e.small, 1.0, 1.0, 32)
            for name, e in contract_parts.ENGINES.items()}
        contract_parts.UNIT = 4
        contract_parts.parts_of.cache_clear()
        wide, tall, bias = self.floats(5, 333), self.floats(333, 7), self.floats(7)
        check("sums in parts", nf.ops.linear(wide, tall, bias, activation="relu"),
              np.maximum(wide @ tall + bias, 0))
        check("sums in parts, transposed", nf.ops.matmul(tall.T, wide.T),
              tall.T @ wide.T)
        check("sums in parts of a batch with prologues", nf.ops.contract(
            "bmk,bkn->bnm", *(np.stack([x, -x]) for x in (wide, tall)),
            prologue_a="relu"), np.stack([np.maximum(x, 0) @ y for x, y in (
                (wide, tall), (-wide, -tall))]).swapaxes(1, 2))
        contract_parts.LONG = 1 << 62
        contract_parts.parts_of.cache_clear()
        p, q = a[:60].reshape(3, 20, 40), b[:36, :40].reshape(3, 12, 40)
        check("packed columns", nf.ops.contract(
            "gmk,gnk->gmn", p.T.swapaxes(0, 2)[:, ::-1], q, prologue_a="relu"),
            np.maximum(p, 0)[:, ::-1] @ q.swapaxes(1, 2))

    def _narrow(self):
        """Vectors, which are reductions; narrow tiles of one slice and of several."""
        check = self.check
        for m, k, n in ((1, 333, 70), (70, 41, 1), (3, 50, 19), (1, 2, 9), (2, 40, 2)):
            a, b, bias = self.floats(m, k), self.floats(k, n), self.floats(n)
            check(f"few rows or columns: {m, k, n}", nf.ops.matmul(a, b), a @ b)
            check("the same, transposed", nf.ops.matmul(b.T, a.T), (a @ b).T)
            check("the same with extras", nf.ops.linear(a, b, bias, activation="relu"),
                  np.maximum(a @ b + bias, 0))
        p, q = self.floats(3, 2, 40), self.floats(3, 40, 11)
        check("few rows of a batch", nf.ops.matmul(p, q), p @ q)
        half = np.rint(2*self.floats(1, 34)).astype(np.float16)
        check("of 16-bit elements", nf.ops.matmul(half, half.T), half @ half.T)
        for m, k, n in ((300, 2, 6), (130, 11, 7), (5, 3, 300), (33, 5, 40),
                        (9, 1, 70)):
            a, b = self.floats(m, k), self.floats(n, k).T
            check(f"narrow: {m, k, n}", nf.ops.matmul(a, b), a @ b)
            check("narrow, transposed", nf.ops.contract("mk,kn->nm", a, b), (a @ b).T)

    def _tall(self):
        """Rows that begin anywhere, rows of whole accesses, and both transposed."""
        check, usual = self.check, (tall.TALL, tall.BLOCKS, tall.SMALL)
        tall.TALL, tall.BLOCKS, tall.SMALL = 60, ((32, 2),), (64, 1)
        for m, k, n in ((300, 5, 3), (70, 9, 4), (130, 4, 2), (67, 8, 5), (61, 40, 6)):
            a, b, bias = self.floats(m + 1, k)[1:], self.floats(k, n), self.floats(n)
            check(f"tall: {m, k, n}", nf.ops.matmul(a, b), a @ b)
            check("tall, transposed", nf.ops.matmul(b.T, a.T), (a @ b).T)
            check("tall, with extras", nf.ops.linear(a, b, bias, activation="relu"),
                  np.maximum(a @ b + bias, 0))
            other = self.floats(m, n)
            scaled, square = residual(a, b, other, 0.25, 3.0)
            check("tall, with numbers", scaled, a @ b * 0.25 + other * 3)
            check("tall, of two results", square, (a @ b) ** 2)
            halves = np.rint(a).astype(np.float16), np.rint(b).astype(np.float16)
            check("tall, of 16-bit elements", nf.ops.matmul(*halves),
                  halves[0] @ halves[1])
            p, q = self.floats(3, m, k), self.floats(3, n, k).swapaxes(1, 2)
            check("tall, of a batch", nf.ops.matmul(p, q), p @ q)
        tall.TALL, tall.BLOCKS, tall.SMALL = usual
