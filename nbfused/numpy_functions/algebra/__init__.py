"""Products, decompositions, polynomials and Fourier transforms.

============= ==========================================================================
`fft`         Fourier transforms of the caller's library
`linalg`      decompositions and solvers of the caller's library, with their rules
`norms`       norms of vectors and matrices, ranks, condition numbers
`polynomials` polynomials by their coefficients
`products`    `einsum`, `tensordot` and what is made of them
============= ==========================================================================
"""

from . import fft, linalg, norms, polynomials, products

__all__ = ["fft", "linalg", "norms", "polynomials", "products"]
