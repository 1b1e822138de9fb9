"""Batching rules: a spec on arrays that have one axis more, the first.

`contract`  a letter more in the subscripts, or a Map where nothing is summed
`layout`    inputs, with the axis of samples beside the others
`map`       loops with one axis more, and indices that know their sample
`reduce`    one kept axis more
`row`       more rows, then sums over those of a sample
`view`      the same of the later axes
"""
