"""Clipping and scaling of gradients that lie in several processes."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.amp import GradScaler as _TorchScaler  # type: ignore[attr-defined, unused-ignore]
from torch.amp.grad_scaler import OptState

from pipescope._gpipe import GPipe
from pipescope._layers import real
from pipescope._scaled_loss import ScaledLoss

__all__ = ["GradScaler", "clip_grad_norm_"]


def clip_grad_norm_(
    model: GPipe, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scales the gradients of a pipeline so that their norm is at most ``max_norm``; returns the norm before.

    The same as ``torch.nn.utils.clip_grad_norm_(plain_model.parameters(), ...)``. In several processes, each of which has
    the gradients of its own lanes only, it is the norm over all of them: call it on every rank, after ``model.step()``.
    With replicas, whose gradients are equal, each parameter counts once.

    Raises RuntimeError if the norm is infinite or nan and ``error_if_nonfinite`` is set, and ProcessError or UsageError
    if another rank calls something else of the model.
    """
    if not isinstance(model, GPipe):
        raise TypeError(f"clip_grad_norm_() is given a {type(model).__name__}; it takes a pipescope.GPipe")
    max_norm, norm_type = real(max_norm, "max_norm"), real(norm_type, "norm_type")
    if not model._is_in_processes:
        return nn.utils.clip_grad_norm_(model.parameters(), max_norm, norm_type, error_if_nonfinite)
    norm: Tensor = model._model.clip_grad_norm_(max_norm, norm_type, bool(error_if_nonfinite))
    return norm


class GradScaler(_TorchScaler):
    """``torch.amp.GradScaler`` for a pipeline, also in several processes.

    ::

        scaler = pipescope.GradScaler(model)
        loss = model.step(x, y, scaler.scale(loss_function))  # the loss itself, not the scaled one
        scaler.unscale_(optimizer)                            # only for what reads gradients, such as
        pipescope.clip_grad_norm_(model, 1.0)
        scaler.step(optimizer)
        scaler.update()

    In several processes only the rank of the last partition computes the loss; the others take the scale from here. If a
    gradient of any rank is infinite or nan, every rank skips its update, so all keep the same scale. ``unscale_()``, or
    ``step()`` without it, waits for the other ranks: call them on every rank, for the same number of optimizers.

    Args:
        model: the pipeline whose gradients are scaled.
        device: type of device, as torch's. Default: that of the model's first lane.
        options: as torch's: init_scale, growth_factor, backoff_factor, growth_interval, enabled.
    """

    def __init__(self, model: GPipe, device: Optional[str] = None, **options: Any) -> None:
        if not isinstance(model, GPipe):
            raise TypeError(f"GradScaler() is given a {type(model).__name__}; it takes a pipescope.GPipe")
        super().__init__(model.devices[0].type if device is None else device, **options)
        self._pipeline = model

    def scale(self, outputs: Any) -> Any:
        """Multiplies a loss by the scale, or returns a loss function that does, for ``model.step()``."""
        if callable(outputs) and not isinstance(outputs, Tensor):
            return ScaledLoss(outputs, super().scale, self.get_scale) if self.is_enabled() else outputs
        return super().scale(outputs)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        if self._scale is None and not self._pipeline._has_loss:
            self._lazy_init_scale_growth_tracker(next((each.device for each in self._pipeline.parameters()), torch.device("cpu")))
        return super()._check_scale_growth_tracker(funcname)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        super().unscale_(optimizer)
        if not self.is_enabled() or not self._pipeline._is_in_processes:
            return
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        anywhere = self._pipeline._model.any_process(any(bool(each.item()) for each in found.values()))
        if not found:  # no parameter of this rank has a gradient
            scale, _ = self._check_scale_growth_tracker("unscale_")
            found[scale.device] = torch.zeros((), device=scale.device)
        for each in found.values():
            each.fill_(float(anywhere))

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Optional[float]:
        if self.is_enabled() and self._pipeline._is_in_processes:
            if self._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY:
                self.unscale_(optimizer)  # also for an optimizer that would unscale by itself
        return super().step(optimizer, *args, **kwargs)
