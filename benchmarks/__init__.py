"""Benchmarks: classes for asv, which ``python -m benchmarks`` runs too."""
