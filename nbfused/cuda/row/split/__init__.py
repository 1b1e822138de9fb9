"""Rows by other kernels: reductions and maps, or one map.

`choice` says for which calls that is faster than `row.skeleton`, which gives a row to
one block or cluster.  Rows that many blocks share are a `Reduce` for each level of
stages, then a `Map`: `steps` writes these, `launcher` runs them.  Rows of few columns
are one `Map`: `unrolled`.  `joined` writes several scalar functions as one, `launches`
gives a step the loops of a call.
"""
