"""Models and comparisons for the engine's tests."""

from __future__ import annotations

import copy
import random

import torch
from torch import nn


class Residual(nn.Module):
    """Takes and returns a tuple, as blocks of a transformer with a mask do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width, bias=False)

    def forward(self, pair):
        x, mask = pair
        return x + self.second(torch.tanh(self.first(x))) * mask, mask


class Spread(nn.Module):
    def forward(self, x):
        return x, torch.sigmoid(x)


class Join(nn.Module):
    def forward(self, pair):
        return pair[0] * pair[1]


class Square(torch.autograd.Function):
    """A node of Python in the graph."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Squares(nn.Module):
    def forward(self, x):
        return x + 0.1 * Square.apply(x)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x):
        y = self.norm(x).unsqueeze(1).expand(-1, 3, -1)
        return x + self.attention(y, y, y, need_weights=False)[0].mean(1)


def random_layers(seed: int, count: int = 8, width: int = 6) -> nn.Sequential:
    """Layers of many kinds, in float64."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    kinds = [
        lambda: [nn.Linear(width, width)],
        lambda: [nn.Linear(width, width, bias=False), nn.GELU()],
        lambda: [nn.LayerNorm(width)],
        lambda: [Spread(), Residual(width), Join()],
        lambda: [Squares()],
        lambda: [Attention(width)],
        lambda: [nn.Linear(width, width), nn.ReLU(inplace=True)],
    ]
    layers: list[nn.Module] = [nn.Linear(width, width)]
    while len(layers) < count:
        layers += choose.choice(kinds)()
    return nn.Sequential(*layers).double()


def random_balance(seed: int, layers: int, partitions: int) -> list[int]:
    cuts = sorted(random.Random(seed).sample(range(1, layers), partitions - 1))
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, layers])]


def has_in_place(layers: nn.Sequential) -> bool:
    return any(getattr(layer, "inplace", False) for layer in layers)


def plain_gradients(layers: nn.Sequential, x: torch.Tensor, y: torch.Tensor, loss):
    """(loss, gradients by name, the input's gradient) of a copy of the plain model."""
    model = copy.deepcopy(layers)
    x = x.detach().clone().requires_grad_()
    value = loss(model(x), y)
    value.backward()
    return value.detach(), {name: p.grad for name, p in model.named_parameters()}, x.grad


def assert_gradients(model: nn.Module, expected: dict[str, torch.Tensor], tolerance: float = 1e-12) -> None:
    found = {name: p.grad for name, p in model.named_parameters()}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (found[name] is None) == (gradient is None), name
        if gradient is not None:
            assert (found[name] - gradient).abs().max() <= tolerance, name
