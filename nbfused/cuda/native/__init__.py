"""Kernels of users that no Numba compiles.

=============== ========================================================================
`nvrtc`         CUDA C++ to machine code
`module`        CUDA C++, PTX or machine code: loaded, described, launched
=============== ========================================================================
"""
