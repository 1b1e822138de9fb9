"""Kernels that users write, from the ways of CuPy, Numba and Slang."""
