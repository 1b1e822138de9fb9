"""Products, decompositions, polynomials and Fourier transforms.

================ =======================================================================
`fft`            Fourier transforms of the caller's library, with their rules
`linalg`         its solvers and determinants
`decompositions` its decompositions
`least_squares`  pseudo-inverses and least squares
`norms`          norms of vectors and matrices, ranks, condition numbers
`polynomials`    polynomials by their coefficients
`products`       `einsum`, `tensordot` and what is made of them
`convolutions`   `convolve` and `correlate`: sums of products with a vector that is
                 moved along
`stacks`         products of stacks of matrices and vectors
`matrices`       what functions of matrices share
================ =======================================================================
"""

from . import (
    convolutions,
    decompositions,
    fft,
    least_squares,
    linalg,
    norms,
    polynomials,
    products,
    stacks,
)

__all__ = ["convolutions", "decompositions", "fft", "least_squares", "linalg", "norms",
           "polynomials", "products", "stacks"]
