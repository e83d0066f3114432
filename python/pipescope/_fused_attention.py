"""Attention on torch's meta device as the one kernel that CPUs and GPUs have for it.

There torch takes scaled_dot_product_attention apart into products and a softmax whose scores are stored. An estimate for a
device would then count operators and bytes that the device never sees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor

from pipescope._causal_masks import next_mask_is_causal

__all__ = ["fused_attention_on_meta"]


@contextlib.contextmanager
def fused_attention_on_meta() -> Iterator[None]:
    """While it lasts, attention on the meta device is one operator, in all threads. Where torch has no such kernel, it
    stays in its parts: for other numbers of dimensions than four, for masks with gradients, and for values whose heads
    have another width than keys."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("scaled_dot_product_attention", _attention, "AutogradMeta")
        yield


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    masks_later_ones = attn_mask is not None and next_mask_is_causal()
    is_fused = query.dim() == key.dim() == value.dim() == 4 and query.size(-1) == value.size(-1)
    if not is_fused or (attn_mask is not None and attn_mask.requires_grad):
        parts: Any = torch.ops.aten._scaled_dot_product_attention_math
        composed: Tensor = parts(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]
        return composed
    if enable_gqa and query.size(1) != key.size(1):
        key, value = (_for_each_head(each, query.size(1)) for each in (key, value))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = attn_mask.new_empty(attn_mask.shape, dtype=query.dtype)
    one: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    # Kernels take a mask or is_causal. Here nothing is computed, and is_causal says what a kernel need not compute.
    fused: Tensor = one(query, key, value, dropout_p, is_causal or masks_later_ones, attn_mask=attn_mask, scale=scale)[0]
    return fused


def _for_each_head(tensor: Tensor, heads: int) -> Tensor:
    samples, own, tokens, width = tensor.shape
    return tensor.unsqueeze(2).expand(samples, own, heads // own, tokens, width).reshape(samples, heads, tokens, width)
