"""Products whose sums are added by a `Reduce`.

`vectors` are products of few rows or columns, `row_blocks` those of a large matrix and
a few, several rows at once; `split` cuts long sums of few results
into `parts`; `epilogue` reduces, and ends both.
"""
