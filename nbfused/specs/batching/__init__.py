"""Batching rules: a spec on arrays that have one axis more, the first.

A module for each spec, as in `vjp`, and `layout`, what their inputs have in common.
"""
