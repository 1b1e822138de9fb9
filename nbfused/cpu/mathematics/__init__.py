"""Elementary functions as branch-free LLVM code that vectorises.

================= ==================================================================
`error_functions` erf and erfc as branch-free LLVM code
`exponentials`    exponential and hyperbolic functions as branch-free LLVM code
`formats`         the two floating formats, and arithmetic on polynomials in them
`functions`       Numba intrinsics of the elementary functions
`integer_divisions` division of integers by float arithmetic, which has vectors
`inverses`        inverse trigonometric and hyperbolic functions, and the cube root
`logarithms`      logarithms as branch-free LLVM code
`number`          `Number`: LLVM values with Python operators that emit instructions
`powers`          powers of two floats as branch-free LLVM code
`trigonometry`    sin, cos and tan for arguments of any size, as functions of vectors
================= ==================================================================
"""
