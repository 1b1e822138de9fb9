"""Operations and functions with a rule inside JAX.

============ ========================================================================
`calls`      primitives of JAX with rules from the specs
`ffi`        a handler for XLA's foreign function interface, by `ctypes`
`kernels`    calls that a compiled program of JAX makes, by their numbers
`primitives` what primitives have in common
`rules`      functions with a rule of the user's, as JAX's
`views`      views by JAX's own functions
`whole`      fused functions, each one primitive
`whole_op`   a function of arrays, and those derived from it, as programs
============ ========================================================================
"""
