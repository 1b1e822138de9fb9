"""Rows that many blocks share: a `Reduce` for each level of stages, then a `Map`.

`choice` says for which calls that is faster than `row.skeleton`, which gives a row to
one block or cluster.  `joined` writes several scalar functions as one, `steps` turns a
row into reductions and maps, and `launcher` runs them with the loops of a call.
"""
