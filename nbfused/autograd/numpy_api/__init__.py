"""NumPy's own functions, ufuncs and methods on Variables.

`protocols` is where NumPy calls, `functions` and `ufuncs` are what it finds, `methods`
are those of arrays, `table_methods` those that are NumPy's functions,
`standard_methods` those of the array API standard, `of_cupy` is CuPy's functions,
`in_place` ``x += y`` and ``x[index] = y``, and `chosen` ``x[mask]`` where the mask is
not known yet.  `integers` are Python's beside arrays, `layouts` has elements in the
order that is asked for, `refusals` the errors for parameters that are not honoured.
"""
