"""Skips that several layers pop, as modules declare them and as traced models have them."""

import pytest
import torch
from torch import nn

import pipescope
from pipescope.compat.torchgpipe.skip import verify_skippables as verify_as_torchgpipe
from pipescope.skip import pop, skippable, stash, verify_skippables


@skippable(stash=["early", "positive"])
class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, x):
        y = self.linear(x)
        yield stash("early", y)
        yield stash("positive", x > 0)
        return torch.tanh(y)


@skippable(pop=["early", "positive"])
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, x):
        early = yield pop("early")
        positive = yield pop("positive")
        return torch.where(positive, self.linear(x), x) + early * x


def sequential():
    torch.manual_seed(1)
    return nn.Sequential(Stem(), Reader(), nn.Tanh(), Reader(), Reader(), nn.Linear(6, 2).double())


def loss(output, target):
    return (output - target).square().mean()


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1", "zero-bubble-v"])
@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_several_modules_may_pop_a_skip(schedule, checkpoint):
    x, y = torch.randn(7, 6).double(), torch.randn(7, 2).double()
    for balance, lanes in [([2, 4], 2), ([1, 2, 3], 3), ([1, 1, 1, 3], 4), ([1, 2, 1, 2], 2)]:
        if (lanes != len(balance)) != (schedule == "zero-bubble-v"):
            continue
        plain, model = sequential(), sequential()
        verify_skippables(plain)
        loss(plain(x), y).backward()
        pipe = pipescope.GPipe(model, balance, devices=["cpu"] * lanes, chunks=4, checkpoint=checkpoint, schedule=schedule)
        pipe.step(x, y, loss)
        for ours, its in zip(pipe.parameters(), plain.parameters()):
            assert (ours.grad - its.grad).norm() <= 1e-12 * (1 + its.grad.norm())


def test_a_plain_model_lets_go_of_a_skip_behind_its_last_pop():
    model = sequential()
    verify_skippables(model)
    model(torch.randn(2, 6).double())
    with pytest.raises(RuntimeError, match="has not been stashed"):
        model[4](torch.randn(2, 6).double())


def test_torchgpipes_rule_of_one_pop_stays_in_compat():
    with pytest.raises(TypeError, match="'3' redeclared 'early' as poppable"):
        verify_as_torchgpipe(sequential())


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.condition = nn.Linear(8, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

    def forward(self, x):
        condition = torch.sigmoid(self.condition(x))
        x = self.first(x)
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) * condition
        return x


def test_a_traced_models_value_is_one_skip_of_all_its_readers():
    layers = pipescope.layers_of(Masked(), sample=torch.randn(4, 8))
    found = [each for each in layers.crossings if len(each.ends) > 1]
    assert len(found) == 1 and found[0].name.startswith("sigmoid")
    assert f"skip {found[0].name} {found[0].first} -> {found[0].ends[0]}, {found[0].ends[1]}" in str(layers)
    pops = [sum(any("sigmoid" in name for name in layer.poppable_names) for layer in layers.values())]
    assert pops == [len(found[0].ends)]
    assert sum(any("sigmoid" in name for name in layer.stashable_names) for layer in layers.values()) == 1
