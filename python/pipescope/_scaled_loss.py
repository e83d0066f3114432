"""A loss function with a scale, as GradScaler makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["ScaledLoss"]


class ScaledLoss:
    """Multiplies a loss by a scale. ``GPipe.step()`` goes backward from that, and returns the loss itself."""

    def __init__(self, loss: Callable[[Any, Any], Tensor], scale: Callable[[Tensor], Tensor], factor: Callable[[], float]):
        self.loss = loss
        self._scale = scale
        self._factor = factor

    def __call__(self, output: Any, target: Any) -> Tensor:
        return self._scale(self.loss(output, target))

    def unscaled(self, value: Tensor) -> Tensor:
        return value / self._factor()
