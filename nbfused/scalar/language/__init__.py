"""The vocabulary of scalar functions.

`vocabulary` is the table of builtins: `row` says what a row holds, `elementary` has
those that backends compute, `composites` those made of others, `complex_numbers` what
they are on complex numbers, `complex_functions` the elementary ones among these;
`library` writes functions of `math`, `cmath` and NumPy in the language.
`names` are their Python names, `threads` the names for kernels of threads, `composite`
vectors, matrices and quaternions, `formats` what printf takes.
"""
