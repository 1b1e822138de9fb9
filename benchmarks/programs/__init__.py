"""Whole programs by nbfused and its peers: training steps, blocks, fused functions.

``program`` says what a program is and how each library runs it, ``mlp``, ``block``,
``gpt`` and ``swish`` are programs, ``measure`` checks and times them.
"""
