"""Tells the engine of layers whose forward packs saved tensors by hooks, as torch.utils.checkpoint does.

The engine goes through such a layer's graph as torch does: each saved tensor is unpacked once in a backward, and a backward has
a number, by which torch.utils.checkpoint recomputes once. Otherwise it would recompute for each saved tensor.
"""

from __future__ import annotations

import torch
from torch.autograd.graph import saved_tensors_hooks

from pipescope._torch import engine

_enter = saved_tensors_hooks.__enter__


def _noted_enter(self: saved_tensors_hooks) -> None:
    if not torch.compiler.is_compiling():
        engine.note_saved_tensor_hooks()
    _enter(self)


def note_uses() -> None:
    """Takes effect for the whole process."""
    saved_tensors_hooks.__enter__ = _noted_enter  # type: ignore[method-assign]
