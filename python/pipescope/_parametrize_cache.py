"""Keeps the cache of torch.nn.utils.parametrize apart for each task.

torch counts in one global whether ``parametrize.cached()`` is active. Lanes run layers at the same time, so one lane's
layer would keep the weights of another one's micro-batch, and a recompute those of a forward without a graph. Here each
thread counts for itself, and in a layer each micro-batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.utils import parametrize

from pipescope._torch import engine


class _Depth:
    """Replaces the global number of active ``cached()`` blocks. torch.compile traces it as if there were none."""

    def __init__(self, depth: int) -> None:
        self._here = threading.local()
        self += depth

    def __iadd__(self, change: int) -> _Depth:
        if not torch.compiler.is_dynamo_compiling():
            depths = self._here.__dict__
            micro_batch = str(engine.current_micro_batch())
            depths[micro_batch] = depths.get(micro_batch, 0) + change
        return self

    def __isub__(self, change: int) -> _Depth:
        return self.__iadd__(-change)

    def __bool__(self) -> bool:
        if torch.compiler.is_dynamo_compiling():
            return False
        return bool(self._here.__dict__.get(str(engine.current_micro_batch()), 0))


def keep_apart(layers: Iterable[nn.Module]) -> None:
    """Takes effect for the whole process, once lanes run parametrized layers."""
    if isinstance(parametrize._cache_enabled, _Depth):
        return
    if any(parametrize.is_parametrized(module) for layer in layers for module in layer.modules()):
        parametrize._cache_enabled = _Depth(parametrize._cache_enabled)  # type: ignore[assignment]
