"""Programs of several processes: collectives with derivatives, on the user's engine.

Each process runs the same program on its part of the data.  A communicator is one that
`torch.distributed`, mpi4py or NCCL through CuPy made; nothing is transported here.

=============== ======================================================================
`communicators` the user's communicator, with checks that all ranks call alike
`collectives`   sums, gathering, scattering, broadcasts, with derivatives
`gradients`     gradients that are averaged over ranks while they are computed
`sharded`       layers and losses whose axis is split over ranks
`engines`       the libraries that carry arrays
=============== ======================================================================
"""

from __future__ import annotations

from .collectives import all_gather, all_reduce, all_to_all, broadcast, reduce_scatter
from .communicators import Communicator, communicator
from .gradients import average, value_and_grad
from .sharded import copy_to_ranks, cross_entropy, layer_norm, sum_over_ranks

__all__ = [
    "Communicator", "all_gather", "all_reduce", "all_to_all", "average", "broadcast",
    "communicator", "copy_to_ranks", "cross_entropy", "layer_norm", "reduce_scatter",
    "sum_over_ranks", "value_and_grad",
]
