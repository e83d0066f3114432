"""Balances as torchgpipe finds them. Profile.balance() finds better ones: it knows the pipeline's schedule."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pipescope.compat.torchgpipe.balance.blockpartition import solve
from pipescope.compat.torchgpipe.balance.profile import profile_sizes, profile_times

__all__ = ["balance_by_size", "balance_by_time"]


def balance_by_time(
    partitions: int, module: nn.Sequential, sample: Any, *, timeout: float = 1.0, device: Any = "cuda"
) -> list[int]:
    """Layers of each partition, for equal times of forward and backward, measured for `timeout` s."""
    return [len(block) for block in solve(profile_times(module, sample, timeout, torch.device(device)), partitions)]


def balance_by_size(
    partitions: int,
    module: nn.Sequential,
    input: Any,
    *,
    chunks: int = 1,
    param_scale: float = 2.0,
    device: Any = "cuda",
) -> list[int]:
    """Layers of each partition, for equal memory on a CUDA device. `param_scale`: copies of the parameters, with
    gradients and the optimizer's state."""
    sizes = profile_sizes(module, input, chunks, param_scale, torch.device(device))
    return [len(block) for block in solve(sizes, partitions)]
