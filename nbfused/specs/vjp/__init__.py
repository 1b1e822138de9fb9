"""Derivatives of specs, which are specs.

`map`, `reduce`, `row`, `contract` for the spec of that name; `row_stages` for single
stages of a Row, `fold` for reductions whose combine has no derivative; `elements` and
`functions` are what they share; `on_complex` is what comes before, where numbers are
complex.
"""
