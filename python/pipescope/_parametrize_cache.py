"""Keeps the cache of torch.nn.utils.parametrize apart for each task.

torch counts in one global whether ``parametrize.cached()`` is active. Lanes run layers at the same time, so one lane's
layer would keep the weights of another one's micro-batch, and a recompute those of a forward without a graph. Here each
thread and micro-batch counts for itself, and outside of layers the count is torch's own.
"""

from __future__ import annotations

import threading

from torch.nn.utils import parametrize

from pipescope._torch import engine


class _Depth:
    """Replaces the global number of active ``cached()`` blocks. Any thread."""

    def __init__(self, outside: int) -> None:
        self._outside = outside
        self._here = threading.local()

    def __iadd__(self, change: int) -> _Depth:
        micro_batch = engine.current_micro_batch()
        if micro_batch is None:
            self._outside += change
        else:
            self._here.__dict__[str(micro_batch)] = self._in(micro_batch) + change
        return self

    def __isub__(self, change: int) -> _Depth:
        return self.__iadd__(-change)

    def __bool__(self) -> bool:
        micro_batch = engine.current_micro_batch()
        return (self._outside if micro_batch is None else self._in(micro_batch)) != 0

    def _in(self, micro_batch: int) -> int:
        return int(self._here.__dict__.get(str(micro_batch), 0))


def keep_apart() -> None:
    """Takes effect for the whole process, once."""
    if not isinstance(parametrize._cache_enabled, _Depth):
        parametrize._cache_enabled = _Depth(parametrize._cache_enabled)  # type: ignore[assignment]
