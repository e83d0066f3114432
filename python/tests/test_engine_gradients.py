"""Losses and gradients of Python models equal the plain model's, in float64."""

from __future__ import annotations

import copy

import engine_models as models
import pipescope
import pytest
import torch
from torch import nn

mse = nn.functional.mse_loss


def batch(samples: int, width: int = 6):
    generator = torch.Generator().manual_seed(7)
    return (torch.randn(samples, width, dtype=torch.float64, generator=generator),
            torch.randn(samples, width, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_random_models(driver, checkpoint):
    for seed in range(8):
        layers = models.random_layers(seed)
        partitions = 2 + seed % 3
        x, y = batch(7)
        loss, gradients, of_input = models.plain_gradients(layers, x, y, mse)
        balance = models.random_balance(seed, len(layers), partitions)
        if checkpoint != "never" and _starts_in_place(layers, balance):
            continue
        pipeline = pipescope.GPipe(copy.deepcopy(layers), balance, devices=["cpu"] * partitions, chunks=3,
                                   checkpoint=checkpoint, driver=driver)
        own = x.clone().requires_grad_()
        value = mse(pipeline(own), y)
        value.backward()
        assert abs(value - loss) <= 1e-12
        models.assert_gradients(pipeline, gradients)
        assert (own.grad - of_input).abs().max() <= 1e-12
        pipeline.zero_grad()
        own.grad = None
        assert abs(pipeline.step(own, y, mse) - loss) <= 1e-12
        models.assert_gradients(pipeline, gradients)
        assert (own.grad - of_input).abs().max() <= 1e-12


def _starts_in_place(layers, balance):
    first = 0
    for size in balance:
        if getattr(layers[first], "inplace", False):
            return True
        first += size
    return False


@pytest.mark.parametrize("schedule", pipescope.Schedule.names(runnable=True))
@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
@pytest.mark.parametrize("lanes, chunks", [(2, 4), (3, 6)])
def test_schedules(schedule, checkpoint, lanes, chunks):
    """Those that split the backward too, over layers of every kind and uneven cuts."""
    partitions = pipescope.Schedule(schedule, lanes=lanes, chunks=chunks).partitions
    for seed in range(4):
        layers = models.random_layers(seed, count=3 * partitions)
        balance = models.random_balance(seed, len(layers), partitions)
        if checkpoint != "never" and _starts_in_place(layers, balance):
            continue
        x, y = batch(2 * chunks + 1)
        loss, gradients, of_input = models.plain_gradients(layers, x, y, mse)
        pipeline = pipescope.GPipe(copy.deepcopy(layers), balance, devices=["cpu"] * lanes, chunks=chunks,
                                   checkpoint=checkpoint, schedule=schedule)
        own = x.clone().requires_grad_()
        for _ in range(2):
            pipeline.zero_grad()
            own.grad = None
            assert abs(pipeline.step(own, y, mse) - loss) <= 1e-12
            models.assert_gradients(pipeline, gradients)
            assert (own.grad - of_input).abs().max() <= 1e-12


def test_a_schedule_from_a_csv():
    schedule = pipescope.Schedule("zero-bubble-h1", lanes=2, chunks=4)
    own = pipescope.Schedule.from_csv(schedule.to_csv(), name="own.csv")
    layers = models.random_layers(0, count=4)
    x, y = batch(8)
    loss, gradients, _ = models.plain_gradients(layers, x, y, mse)
    pipeline = pipescope.GPipe(layers, models.random_balance(0, len(layers), 2), devices=["cpu"] * 2, chunks=4,
                               checkpoint="never", schedule=own)
    assert abs(pipeline.step(x, y, mse) - loss) <= 1e-12
    models.assert_gradients(pipeline, gradients)


def test_training_with_adam_and_clipping():
    layers = models.random_layers(3)
    plain = copy.deepcopy(layers)
    pipeline = pipescope.GPipe(layers, models.random_balance(3, len(layers), 2), devices=["cpu"] * 2, chunks=4,
                               checkpoint="never")
    for model in (plain, pipeline):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(10):
            x, y = batch(8)
            optimizer.zero_grad()
            mse(model(x + 0.1 * step), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    for (name, one), other in zip(plain.named_parameters(), pipeline.parameters()):
        assert (one - other).abs().max() <= 1e-10, name


@pytest.mark.parametrize("norm_type", [2.0, float("inf"), 1.0, 1.5])
def test_clips_as_torch_does_bit_for_bit(norm_type):
    layers = models.random_layers(3)
    pipeline = pipescope.GPipe(layers, models.random_balance(3, len(layers), 2), devices=["cpu"] * 2, chunks=4)
    mse(pipeline(batch(8)[0]), batch(8)[1]).backward()
    gradients = [each.grad.clone() for each in pipeline.parameters()]
    norm = pipescope.clip_grad_norm_(pipeline, 1e-3, norm_type)
    clipped = [each.grad.clone() for each in pipeline.parameters()]
    for each, gradient in zip(pipeline.parameters(), gradients):
        each.grad = gradient
    assert norm == nn.utils.clip_grad_norm_(pipeline.parameters(), 1e-3, norm_type)
    assert all(torch.equal(one, each.grad) for one, each in zip(clipped, pipeline.parameters()))


def test_loss_sums_and_uneven_batches():
    layers = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)).double()
    x, y = batch(7)

    def total(output, target):
        return ((output - target) ** 2).sum()

    loss, gradients, _ = models.plain_gradients(layers, x, y, total)
    pipeline = pipescope.GPipe(layers, [1, 2], devices=["cpu"] * 2, chunks=3, schedule="1f1b", reduction="sum")
    assert abs(pipeline.step(x, y, total) - loss) <= 1e-10
    models.assert_gradients(pipeline, gradients, 1e-10)
