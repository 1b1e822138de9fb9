"""The names that CUDA defines for C bodies.

`functions` is the table of its functions, with what each does to types; `special` and
`bessel` have definitions of some, `texts` those that give more than one value, in C.
"""
