"""Types of the values of a scalar function, by NumPy's rules.

`types` specialises a function for dtypes, `promotion` asks NumPy how types combine,
`lowering` walks the regions, `operations`, `accesses` and `literals` type their parts,
which are `values`; `python_numbers` are the caller's.  `divisions` takes some out of a
function, `row_loads` loads of rows, `vanishing` what is computed of ``x - x``.
"""
