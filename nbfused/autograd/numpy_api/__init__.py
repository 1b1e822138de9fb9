"""NumPy's own functions, ufuncs and methods on Variables.

`protocols` is where NumPy calls, `functions` and `ufuncs` are what it finds, `methods`
are those of arrays; `joining` has the functions that shift and join parts of arrays.
"""
