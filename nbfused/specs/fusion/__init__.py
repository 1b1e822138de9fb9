"""Composition of specs, done on their scalar functions.

`algebra` joins two specs, `row_algebra` several into a Row, whose stages `row_forms`
and `factors` simplify; `row_joins` joins Rows and what follows them, and
`element_joins` Maps and sums of what these read; `epilogues` joins a product and what
follows it; `graph` is a whole program, `partition` divides it into launches, whose
`order` is free but for what they read.  The package `slicing` gives slices,
joins and rolls a form in which Maps merge with them; `moved_factors` moves work from a
product to an earlier one.
"""
