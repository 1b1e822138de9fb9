"""Products whose sums are added by a `Reduce`.

`vectors` are products of few rows or columns, `split` cuts long sums of few results
into `parts`; `epilogue` reduces, and ends both.
"""
