"""Samples lie in the first dimension, where a pipeline cuts mini-batches and joins outputs. What does otherwise is found here."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from pipescope._structure import tensors_in
from pipescope.errors import UsageError
from pipescope.skip import skips_on

__all__ = ["SizesChecked", "copy_of", "rows_of", "warn_of_mixed_samples"]

_MOST_DIFFERENCE = 0.02  # float16 and other orders of summation stay below


def rows_of(value: Any, count: int) -> Any:
    """That many rows of each tensor, again from the start if there are too few."""

    def rows(tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor
        if tensor.dim() == 0 or tensor.shape[0] == 0:
            raise UsageError(
                f"a sample has the shape {tuple(tensor.shape)}; its first dimension is the samples; give at least 1"
            )
        if tensor.is_meta:
            return torch.empty((count, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")
        return tensor.detach()[torch.arange(count, device=tensor.device) % tensor.shape[0]]

    return tree_map(rows, value)


def copy_of(module: nn.Module) -> nn.Module:
    """A copy of a layer, also of one that keeps a computed weight, as the older weight_norm and prune do."""
    computed = {
        id(tensor): tensor.detach().clone()
        for part in module.modules()
        for tensor in tensors_in(dict(vars(part)))
        if tensor.grad_fn is not None
    }
    return copy.deepcopy(module, computed)


class SizesChecked:
    """A loss that refuses outputs whose samples are not in the first dimension, where the engine would join them."""

    def __init__(self, loss: Callable[[Any, Any], Tensor]) -> None:
        self._loss = loss
        self._first: Optional[tuple[int, list[torch.Size]]] = None  # samples, and shapes of the outputs

    def __call__(self, output: Any, target: Any) -> Tensor:
        samples, shapes = tensors_in(target)[0].shape[0], [each.shape for each in tensors_in(output)]
        first = self._first = self._first or (samples, shapes)
        for before, now in zip(first[1], shapes):
            if samples == first[0] or len(before) != len(now) or not now or before[0] != now[0]:
                continue
            follows = [k for k in range(1, len(now)) if (before[k], now[k]) == (first[0], samples)]
            if follows:
                raise UsageError(
                    f"an output has the shape {tuple(before)} for {first[0]} samples and {tuple(now)} for {samples}; its "
                    f"samples are in dimension {follows[0]}, and a pipeline joins micro-batches in the first one; use "
                    "batch_first=True, or transpose the output in the last layer"
                )
        value = self._loss(output, target)
        if isinstance(value, Tensor) and value.numel() != 1:
            raise UsageError(
                f"the loss function returned {value.numel()} values; a backward begins at one; reduce it by mean or sum"
            )
        return value


def warn_of_mixed_samples(modules: Iterable[nn.Module], sample: Any, device: str = "cpu") -> None:
    """Warns if the outputs of two samples together are not those of each alone. Runs copies of the layers, in eval mode
    and without gradients. Says nothing about layers that fail, or that return something else each time."""
    try:
        pair = rows_of(sample, 2)
        alone = [rows_of(pair, 1), tree_map(lambda each: each[1:] if isinstance(each, Tensor) else each, pair)]
        together, again, *alone = _outputs(modules, [pair, pair, *alone], device)
        worst = max((_difference(*each) for each in zip(together, *alone)), default=0.0)
        if worst <= _MOST_DIFFERENCE or any(not torch.equal(one, other) for one, other in zip(together, again)):
            return
    except Exception:  # the caller runs the layers too, and meets it there
        return
    warnings.warn(
        f"a sample's output depends on the other samples of its mini-batch, by {worst:.2g} of the largest output; a pipeline "
        "cuts mini-batches along the first dimension, so it computes something else than the whole model. If that is the "
        "sequence, use batch_first=True, or transpose in the first layer and the last one",
        stacklevel=3,
    )


def _outputs(modules: Iterable[nn.Module], values: list[Any], device: str) -> list[list[Tensor]]:
    """The outputs for each of the inputs."""
    shelves: list[dict[Any, Any]] = [{} for _ in values]
    values = [tree_map(lambda each: each.to(device, copy=True) if isinstance(each, Tensor) else each, value) for value in values]
    with torch.no_grad():
        for module in modules:
            layer = copy_of(module).to(device).eval()
            for k, shelf in enumerate(shelves):
                with skips_on(shelf):
                    values[k] = layer(values[k])
    return [tensors_in(value) for value in values]


def _difference(together: Tensor, first: Tensor, second: Tensor) -> float:
    """The largest difference, as a share of the largest value. 0: not comparable."""
    if together.dim() == 0 or together.shape[0] != first.shape[0] + second.shape[0] or not together.is_floating_point():
        return 0.0
    alone = torch.cat([first, second]).double()
    largest = float(alone.abs().max())
    return float((together.double() - alone).abs().max()) / largest if largest > 0 else 0.0
