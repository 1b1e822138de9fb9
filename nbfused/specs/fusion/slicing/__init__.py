"""Slices, joins and rolls among the Maps of a graph.

`rolls` finds rolls and joins among slices, `lowering` gives all of these a form in
which Maps merge with them: Maps with windows (`pushed`) of rearranged arrays
(`rearranged`).  `joins` says which of them merge, and `contexts` writes what did.
"""
