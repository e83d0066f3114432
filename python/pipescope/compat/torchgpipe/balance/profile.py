"""Times and sizes of layers, as torchgpipe measures them: one after the other, alone."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["layerwise_sandbox", "profile_sizes", "profile_times"]


def layerwise_sandbox(module: nn.Sequential, device: torch.device) -> Iterator[nn.Module]:
    """Copies of the layers on the device, in training mode."""
    for layer in module:
        yield copy.deepcopy(layer).to(device).train()


def _mapped(value: Any, change: Any) -> Any:
    return change(value) if isinstance(value, Tensor) else tuple(change(each) for each in value)


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _backward(value: Any) -> None:
    ends = [each for each in ([value] if isinstance(value, Tensor) else value) if each.requires_grad]
    if ends:
        torch.autograd.backward(ends, [each.detach() for each in ends])


def profile_times(module: nn.Sequential, sample: Any, timeout: float, device: torch.device) -> list[int]:
    """Time of each layer in µs, summed over the passes that begin within `timeout` s."""
    if any(parameter.grad is not None for parameter in module.parameters()):
        raise ValueError("some parameter already has gradient")
    times = [0.0] * len(module)
    begun = time.monotonic()
    while time.monotonic() - begun < timeout:
        value = _mapped(sample, lambda each: _leaf(each.to(device)))
        for k, layer in enumerate(layerwise_sandbox(module, device)):
            value = _mapped(value, _leaf)
            _synchronize(device)
            start = time.perf_counter()
            value = layer(value)
            _backward(value)
            _synchronize(device)
            times[k] += time.perf_counter() - start
    return [int(seconds * 1e6) for seconds in times]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def profile_sizes(
    module: nn.Sequential, input: Any, chunks: int, param_scale: float, device: torch.device
) -> list[int]:
    """Bytes of each layer on a CUDA device: what its forward keeps for a micro-batch, and its parameters."""
    if device.type != "cuda":
        raise ValueError("size profiler supports only CUDA device")
    first = input if isinstance(input, Tensor) else input[0]
    samples = first.size(0) / chunks
    value = _mapped(input, lambda each: each[:1].detach().to(device).requires_grad_(each.requires_grad))
    sizes = []
    for layer in layerwise_sandbox(module, device):
        value = _mapped(value, _leaf)
        before = torch.cuda.memory_allocated(device)
        value = layer(value)
        kept = torch.cuda.memory_allocated(device) - before
        parameters = sum(parameter.untyped_storage().nbytes() for parameter in layer.parameters())
        sizes.append(int(kept * samples + parameters * param_scale))
    return sizes
