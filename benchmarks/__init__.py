"""Benchmarks: asv classes, also run by ``python -m benchmarks``."""
