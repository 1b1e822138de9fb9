"""Rows of tables, and inputs that repeat, for the simulated device."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

import nbfused as nf
from nbfused.autograd.tape import apply
from nbfused.cuda.contract import launcher as contract
from nbfused.cuda.contract.sums import vectors
from nbfused.cuda.reduce import launcher as reduce
from nbfused.cuda.row import launcher as row
from nbfused.scalar.language.names import load
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map

__all__ = ["Gathers"]


def scaled(table, index, i, factor, by):
    return load(table, i, index % by)*factor + index // by


def of_36(table, index, i, factor, by):
    return load(table, i, index % 36)*factor + index // by


class Gathers:
    """Parts of `Beyond`."""

    def gathers(self):
        """Pieces of rows, rests, several rows of a group, strides of other kinds."""
        at = np.array([[3, -1, 0], [0, 4, 4], [-5, 2, 1]])
        for columns in (3, 9, 33, 64, 150, 1030):
            for dtype in (np.float32, np.float16):
                table = self.floats(5, columns + 1).astype(dtype)
                for own in (table[:, 1:], np.ascontiguousarray(table[:, 1:]),
                            table[:, ::-1], np.broadcast_to(table[:1], table.shape)):
                    self.check(f"rows of {columns} {own.strides}", nf.ops.take(own, at),
                               own[at])
        cube = self.floats(3, 5, 36)
        self.check("rows of blocks", nf.ops.take(cube, at, axis=1), cube[:, at])
        flat, other = np.arange(9*36).reshape(9, 36), self.floats(9, 37)
        places = at.reshape(9, 1) % 5
        kinds = "raw", "index", "element", "element", "scalar"
        spec, literal = Map(parse(scaled), kinds), Map(parse(of_36), kinds)
        for by in (36, 72, 9*36, 5, 1000):
            for own in (other[:, :36], other[:, 1:], np.ascontiguousarray(other[:, 1:]),
                        np.broadcast_to(other[:, :1], flat.shape)):
                table = self.floats(5, max(by, 36))
                (found,) = apply(spec, [table, places, own, by])
                self.check(f"a function of rows of {by}", found,
                           table[places, flat % by]*own + flat // by)
                (found,) = apply(literal, [table, places, own, by])
                self.check(f"with a literal and {by}", found,
                           table[places, flat % 36]*own + flat // by)

    def repeats(self):
        """Inputs that repeat along rows are computed once."""
        with patch.object(row, "REPEATS", (1, 2)), \
                patch.object(reduce, "REPEATS", (1, 2)), \
                patch.object(contract, "REPEATS", (1, 1)):
            many = np.broadcast_to(self.floats(1, 37), (9, 37))
            e = np.exp(many)
            self.check("rows that repeat", nf.ops.softmax(many),
                       e/e.sum(1, keepdims=True))
            self.check("kept points that repeat", nf.ops.max(many, axis=1), many.max(1))
            wide = np.broadcast_to(self.floats(4, 1, 3, 37), (4, 5, 3, 37))
            self.check("a loop between", nf.ops.var(wide, axis=3), wide.var(3))
            self.check("where they are", nf.ops.argmax(wide, axis=3), wide.argmax(3))
            other = self.floats(37, 6)
            self.check("rows of a product", nf.ops.matmul(many, other), many @ other)
        with patch.object(vectors, "WORTH", 1):
            for m, n, k in ((9, 3, 70), (2, 13, 64), (8, 4, 65)):
                a, b = self.floats(m, k), self.floats(n, k)
                bias = self.floats(n)
                self.check(f"blocks of rows {m, n, k}", nf.ops.matmul(a, b.T), a @ b.T)
                self.check("with what is added", nf.ops.linear(a, b.T, bias),
                           a @ b.T + bias)
            cube, few = self.floats(2, 9, 66), self.floats(2, 66, 3)
            self.check("of a batch", nf.ops.matmul(cube, few), cube @ few)
