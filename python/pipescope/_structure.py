"""Values that layers pass on, as flat lists of tensors and what lies around them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils import _pytree

__all__ = ["copied", "flattened", "structure_name", "tensors_in", "unflattened"]

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
