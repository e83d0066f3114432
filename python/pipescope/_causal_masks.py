"""Which masks of attention forbid all later tokens, found from the graph that makes them.

While a model is exported, libraries such as transformers make the causal mask as a tensor, because they cannot look at values;
as they run, they say ``is_causal`` instead. Kernels compute only half of the pairs of tokens then, and estimates count as many.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

__all__ = ["CausalMasks", "next_mask_is_causal", "set_masks"]

_MOST_ELEMENTS = 1 << 26  # of a tensor that is computed to look at it


class CausalMasks:
    """Looks at the masks of one graph, at the sample's sizes."""

    def __init__(self, constants: Any) -> None:
        self._tensors = {node: info.tensor for node, info in constants.items()}
        self._found: dict[Node, bool] = {}

    def is_causal(self, mask: Any) -> bool:
        """True if the mask forbids all later tokens. A mask that depends on the model's input is not looked at."""
        if not isinstance(mask, Node):
            return False
        if mask not in self._found:
            try:
                with torch.no_grad():
                    self._found[mask] = _forbids_later_ones(self._value(mask))
            except Exception:  # an operator that does not run on the host, or a value that is not there
                self._found[mask] = False
        return self._found[mask]

    def _value(self, mask: Node) -> Any:
        values: dict[Node, Any] = {}
        waiting = [mask]
        while waiting:
            node = waiting[-1]
            missing = [each for each in node.all_input_nodes if each not in values] if _size_of(node) is None else []
            if missing:
                waiting += missing
                continue
            values[waiting.pop()] = self._run(node, values)
        return values[mask]

    def _run(self, node: Node, values: dict[Node, Any]) -> Any:
        if (size := _size_of(node)) is not None:
            return size
        if node.op == "placeholder":
            tensor = self._tensors[node]  # KeyError: an input
            if tensor.is_meta:
                raise ValueError("the model's tensors have no values")
            return tensor.detach().cpu()
        made = node.meta.get("val")
        if isinstance(made, Tensor) and _elements(made) > _MOST_ELEMENTS:
            raise ValueError("the mask is too large to look at")

        def on_host(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            if isinstance(value, (list, tuple)):
                return type(value)(on_host(each) for each in value)
            return value

        args = [on_host(each) for each in map_arg(node.args, values.__getitem__)]
        kwargs = {name: on_host(each) for name, each in map_arg(node.kwargs, values.__getitem__).items()}
        target: Any = node.target
        return target(*args, **kwargs)


def _hint(size: Any) -> Any:
    return size.node.hint if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) else size


def _size_of(node: Node) -> Any:
    value = node.meta.get("val")
    return _hint(value) if isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) else None


def _elements(tensor: Tensor) -> int:
    total = 1
    for size in tensor.shape:
        total *= int(_hint(size))
    return total


def _forbids_later_ones(mask: Tensor) -> bool:
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return False
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return not bool(allowed.triu(1).any())


# ---- Which one a layer's code uses now ----


class _Running(threading.local):
    masks: Iterator[bool] = iter(())


_running = _Running()


def set_masks(are_causal: Sequence[bool]) -> None:
    """Says which masks the code that runs next passes to attention, in order."""
    _running.masks = iter(are_causal)


def next_mask_is_causal() -> bool:
    """Of an operator of attention with a mask; False if nothing is known."""
    return next(_running.masks, False)
