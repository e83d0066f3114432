"""Values that layers pass on, as flat lists of tensors and what lies around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

__all__ = ["copied", "error_of", "flattened", "structure_name", "tensors_in", "unflattened"]

#: A tree, and which of its leaves are tensors. The others are None.
Structure = tuple[Any, tuple[bool, ...]]


def flattened(value: Any) -> tuple[list[Tensor], Structure, str]:
    """The tensors of a value, its structure, and what is wrong with it: a leaf that is neither a tensor nor None."""
    leaves, tree = _pytree.tree_flatten(value)
    for leaf in leaves:
        if leaf is not None and not isinstance(leaf, Tensor):
            return [], (tree, ()), type(leaf).__name__ + _place_of(value, leaf)
    return [leaf for leaf in leaves if leaf is not None], (tree, tuple(leaf is not None for leaf in leaves)), ""


def _place_of(value: Any, leaf: Any) -> str:
    """ " at [0]['mask']", or nothing for the value itself."""
    place = next(_pytree.keystr(path) for path, each in _pytree.tree_flatten_with_path(value)[0] if each is leaf)
    return f" at {place} of a {type(value).__name__}" if place else ""


def unflattened(tensors: list[Tensor], structure: Structure) -> Any:
    """The value of which flattened() made these."""
    tree, are_tensors = structure
    rest = iter(tensors)
    return _pytree.tree_unflatten([next(rest) if is_tensor else None for is_tensor in are_tensors], tree)


def structure_name(structure: Structure) -> str:
    """ "dict"."""
    return str(getattr(structure[0].type, "__name__", structure[0].type))


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a value, whatever else it holds."""
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def copied(value: Any) -> Any:
    """The value with copies of its tensors, which a layer may change and whose gradients go no further."""

    def copy(leaf: Any) -> Any:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf

    return _pytree.tree_map(copy, value)


def error_of(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference of two lists of tensors, relative to the largest finite value that is expected.

    Infinite for other shapes, and where only one of two values is infinite; nan where only one of two values is nan.
    Values that are nan or infinite in both agree. Whole numbers and bools that differ are infinitely far apart.
    """
    if [each.shape for each in found] != [each.shape for each in expected]:
        return float("inf")
    differences, sizes = [0.0], [0.0]
    for one, other in zip(found, expected):
        if not (other.is_floating_point() or other.is_complex()):
            differences.append(0.0 if torch.equal(one, other) else float("inf"))
            continue
        wide = torch.complex128 if other.is_complex() else torch.float64
        one, other = one.detach().to("cpu", wide), other.detach().to("cpu", wide)
        finite = other[other.isfinite()].abs()
        sizes.append(float(finite.max()) if finite.numel() else 0.0)
        differs = ~((one == other) | (one.isnan() & other.isnan()))
        if bool(differs.any()):
            differences.append(float((one - other)[differs].abs().max()))
    largest = max(differences, key=lambda each: (each != each, each))
    return largest / (max(sizes) or 1.0)
