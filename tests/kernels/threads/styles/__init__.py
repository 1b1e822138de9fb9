"""Kernels as users of Warp and Slang write them, each beside a reference in NumPy."""
