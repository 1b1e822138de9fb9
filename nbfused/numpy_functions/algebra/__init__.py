"""Products, decompositions, polynomials and Fourier transforms.

================ =======================================================================
`fft`            Fourier transforms of the caller's library, with their rules
`linalg`         its solvers and determinants
`decompositions` its decompositions, least squares
`norms`          norms of vectors and matrices, ranks, condition numbers
`polynomials`    polynomials by their coefficients
`products`       `einsum`, `tensordot` and what is made of them
`matrices`       what functions of matrices share
================ =======================================================================
"""

from . import decompositions, fft, linalg, norms, polynomials, products

__all__ = ["decompositions", "fft", "linalg", "norms", "polynomials", "products"]
