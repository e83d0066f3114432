"""Batch norms whose running statistics are those of mini-batches.

GPipe does this by itself (deferred_batch_norm); this module is for programs that convert their modules themselves.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pipescope._gpipe import is_recomputing

__all__ = ["DeferredBatchNorm"]


class DeferredBatchNorm(_BatchNorm):
    """Normalizes each micro-batch by itself, and moves the running statistics once per `chunks` micro-batches."""

    sum: Tensor
    sum_squares: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: Optional[float] = 0.1,
        affine: bool = True,
        chunks: int = 1,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats=True)
        self.register_buffer("sum", torch.zeros_like(self.running_mean))  # type: ignore[arg-type]
        self.register_buffer("sum_squares", torch.zeros_like(self.running_var))  # type: ignore[arg-type]
        self.counter = 0  # values per channel so far
        self.tracked = 0  # micro-batches so far
        self.chunks = chunks

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() <= 2:
            raise ValueError(f"expected at least 3D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return nn.functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False,
                                            0.0, self.eps)
        if not is_recomputing():
            self._track(input.detach())
        return nn.functional.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)

    def _track(self, input: Tensor) -> None:
        other_dimensions = [0, *range(2, input.dim())]
        self.sum += input.sum(other_dimensions)
        self.sum_squares += (input**2).sum(other_dimensions)
        self.counter += input.numel() // input.size(1)
        self.tracked += 1
        if self.tracked == self.chunks:
            self._move_statistics()

    def _move_statistics(self) -> None:
        self.num_batches_tracked += 1  # type: ignore[operator, assignment]
        weight = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum  # type: ignore[arg-type]
        mean = self.sum / self.counter
        variance = self.sum_squares / self.counter - mean**2
        self.running_mean.lerp_(mean, weight)  # type: ignore[union-attr]
        self.running_var.lerp_(variance, weight)  # type: ignore[union-attr]
        self.sum.zero_()
        self.sum_squares.zero_()
        self.counter = self.tracked = 0

    @classmethod
    def convert_deferred_batch_norm(cls, module: Any, chunks: int = 1) -> Any:
        """The module, with a deferred batch norm in place of each that tracks running statistics."""
        if isinstance(module, DeferredBatchNorm) and module.chunks == chunks:
            return module
        converted = module
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            converted = DeferredBatchNorm(module.num_features, module.eps, module.momentum, module.affine, chunks)
            converted.train(module.training)
            for name, value in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                setattr(converted, name, value)
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_deferred_batch_norm(child, chunks))
        return converted
