"""How mini-batches are cut: inputs by keyword, whole and along other dimensions; targets of many kinds; token means."""

from __future__ import annotations

import collections
import copy

import engine_models as models
import pipescope
import pytest
import torch
from torch import nn

SCHEDULES = ["gpipe", "1f1b", "zero-bubble-h1"]
cross_entropy = nn.functional.cross_entropy


def tokens_of(batch: int = 9, length: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels; the first two samples have no label, others few."""
    torch.manual_seed(2)
    x, y = torch.randn(batch, length, 6, dtype=torch.float64), torch.randint(4, (batch, length))
    y[:2] = -100
    y[4:, 2:] = -100
    return x, y


def token_mean(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten())


def labels_in(target):
    return (target != -100).sum()


def layers_of(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *more, nn.Linear(8, 4)).double()


def pipeline_of(layers, schedule="1f1b", **options):
    return pipescope.GPipe(copy.deepcopy(layers), [1, len(layers) - 1], devices=["cpu"] * 2, chunks=4, schedule=schedule,
                           **options)


# ---- Token means ----


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_token_mean_with_a_weight_trains_alike_in_every_schedule(schedule, checkpoint):
    layers, (x, y) = layers_of(), tokens_of()
    expected, gradients, _ = models.plain_gradients(layers, x, y, token_mean)
    model = pipeline_of(layers, schedule, weight=labels_in, checkpoint=checkpoint)
    for times in (1, 2):  # gradients add up
        assert abs(model.step(x, y, token_mean) - expected) <= 1e-12
        models.assert_gradients(model, {name: times * each for name, each in gradients.items()})


def test_a_token_mean_with_a_weight_trains_alike_with_staggered_updates():
    layers, (x, y) = layers_of(), tokens_of()
    expected, gradients, _ = models.plain_gradients(layers, x, y, token_mean)
    model = pipeline_of(layers, weight=lambda target: labels_in(target["y"]))
    losses = []
    model.train_staggered([(x, {"y": y, "names": [str(k) for k in range(9)]})], lambda out, t: token_mean(out, t["y"]),
                          lambda lane: None, losses.append)
    assert abs(losses[0] - expected) <= 1e-12
    models.assert_gradients(model, gradients)


def test_losses_of_torch_that_do_not_fit_the_options_are_refused():
    x, y = torch.randn(8, 6, dtype=torch.float64), torch.randint(4, (8,))
    y[0] = 3
    sums = nn.CrossEntropyLoss(reduction="sum")
    with pytest.raises(pipescope.UsageError, match="has reduction='mean'.*give both the same"):
        pipeline_of(layers_of()).step(x, y, sums)
    pipeline_of(layers_of(), "gpipe").step(x, y, sums)
    pipeline_of(layers_of(), reduction="sum").step(x, y, sums)
    ignoring = nn.CrossEntropyLoss(ignore_index=3)
    with pytest.raises(pipescope.UsageError, match=r"ignores some of the targets.*weight=lambda y: \(y != 3\).sum\(\)"):
        pipeline_of(layers_of()).step(x, y, ignoring)
    pipeline_of(layers_of(), weight=lambda t: (t != 3).sum()).step(x, y, ignoring)
    pipeline_of(layers_of()).step(x, y.clamp(max=2), ignoring)
    with pytest.raises(pipescope.UsageError, match=r"weights of classes.*class_weights\[y\].sum\(\)"):
        pipeline_of(layers_of()).step(x, y, nn.CrossEntropyLoss(weight=torch.ones(4, dtype=torch.float64)))
    with pytest.raises(TypeError, match="weight is a int"):
        pipeline_of(layers_of(), weight=3)
    with pytest.raises(pipescope.UsageError, match="weight is given with reduction sum"):
        pipeline_of(layers_of(), weight=labels_in, reduction="sum")
    with pytest.raises(ZeroDivisionError):
        pipeline_of(layers_of(), weight=lambda t: 1 / 0).step(x, y, cross_entropy)


# ---- Inputs ----


class Masked(nn.Module):
    """Takes a mask for all samples, positions [3, batch] and a flag."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 8)

    def forward(self, x, mask=None, positions=None, doubled=False):
        x = self.linear(x)
        x = x if mask is None else mask @ x
        x = x if positions is None else x + positions.sum(0).view(-1, 1, 1)
        return 2 * x if doubled else x


def masked_inputs():
    torch.manual_seed(3)
    x = torch.randn(5, 5, 6, dtype=torch.float64, requires_grad=True)  # as many rows in the mask as samples
    mask = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    positions = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    return x, mask, positions, torch.randint(4, (5, 5))


def masked_layers():
    torch.manual_seed(1)
    return nn.Sequential(Masked(), nn.Tanh(), nn.Linear(8, 4)).double()


SPLIT = {"mask": None, "positions": 1}


@pytest.mark.parametrize("checkpoint", ["always", "never"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_inputs_by_keyword_reach_the_first_layer_cut_as_split_says(schedule, checkpoint):
    x, mask, positions, y = masked_inputs()
    layers = masked_layers()
    output = layers[2](layers[1](layers[0](x, mask, positions, True)))
    expected = token_mean(output, y)
    expected.backward()
    own = [each.detach().clone().requires_grad_() for each in (x, mask, positions)]
    model = pipeline_of(layers, schedule, split=SPLIT, checkpoint=checkpoint)
    model.zero_grad(set_to_none=True)
    loss = model.step(own[0], y, token_mean, mask=own[1], positions=own[2], doubled=True)
    assert abs(loss - expected) <= 1e-12
    models.assert_gradients(model, {name: each.grad for name, each in layers.named_parameters()})
    for one, other in zip(own, (x, mask, positions)):
        assert torch.allclose(one.grad, other.grad, rtol=1e-12, atol=1e-14)


def test_a_backward_has_the_keywords_of_its_forward():
    x, mask, positions, _ = (each.detach() for each in masked_inputs())
    layers = masked_layers()
    model = pipeline_of(layers, "gpipe", split=SPLIT, checkpoint="always")
    first, second = model(x, mask=mask), model(x, positions=positions, doubled=True)
    assert torch.allclose(model(x), layers(x))
    second.sum().backward()
    first.square().sum().backward()
    for kept in ({"mask": mask}, {"positions": positions, "doubled": True}):
        output = layers[2](layers[1](layers[0](x, **kept)))
        (output.square() if "mask" in kept else output).sum().backward()
    models.assert_gradients(model, {name: each.grad for name, each in layers.named_parameters()}, 1e-11)
    with torch.no_grad():
        assert torch.allclose(model(x, mask=mask), first)


def test_a_model_with_the_sequence_first():
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), nn.Linear(8, 4)).double()
    x, y = torch.randn(5, 6, 6, dtype=torch.float64), torch.randint(4, (5, 6))
    expected, gradients, _ = models.plain_gradients(layers, x, y, token_mean)
    for schedule in SCHEDULES:
        model = pipeline_of(layers, schedule, split={0: 1, "target": 1, "output": 1})
        assert abs(model.step(x, y, token_mean) - expected) <= 1e-12
        models.assert_gradients(model, gradients)
        assert torch.allclose(model.eval()(x), layers.eval()(x))


def test_a_function_makes_the_parts_of_an_input():
    class Spans(nn.Module):
        def forward(self, x, offsets):
            assert offsets[0] == 0 and len(offsets) == len(x) + 1
            return x + offsets.diff().view(-1, 1)

    layers = [Spans(), nn.Linear(6, 4).double()]
    x, offsets = torch.randn(7, 6, dtype=torch.float64), torch.tensor([0, 2, 5, 6, 9, 14, 15, 20])
    model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=3,
                            split={"offsets": lambda whole, first, end: whole[first : end + 1] - whole[first]})
    assert torch.allclose(model(x, offsets=offsets), layers[1](layers[0](x, offsets)))


def test_inputs_that_do_not_fit_are_refused_with_the_way_out():
    x, mask, positions, y = (each.detach() for each in masked_inputs())
    model = pipeline_of(masked_layers())
    with pytest.raises(pipescope.errors.EngineError, match=r"input 'positions' holds 3 samples and input 0 holds 5.*split="):
        model.step(x, y, token_mean, positions=positions)
    with pytest.raises(TypeError, match="input 'mask' is a list"):
        model.step(x, y, token_mean, mask=[mask])
    with pytest.raises(TypeError, match="unexpected keyword argument 'maks'"):
        model.step(x, y, token_mean, maks=mask)
    with pytest.raises(pipescope.UsageError, match="split names 'maks'"):
        pipeline_of(masked_layers(), split={"maks": None})
    with pytest.raises(pipescope.UsageError, match=r"split\['mask'\] is 'whole'"):
        pipeline_of(masked_layers(), split={"mask": "whole"})


# ---- Targets ----

Pair = collections.namedtuple("Pair", "labels scale")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_targets_of_many_kinds_are_cut_with_the_samples(schedule):
    layers, (x, y) = layers_of(), tokens_of()
    scale = torch.tensor(0.5, dtype=torch.float64)
    rows = [{"row": y[k, :2], "k": k} for k in range(9)]
    expected, gradients, _ = models.plain_gradients(
        layers, x, y.clamp(min=0), lambda out, t: 1.5 * cross_entropy(out.flatten(0, 1), t.flatten()))
    seen = []

    def loss(output, target):
        n = len(output)
        assert len(target["rows"]) == len(target["names"]) == len(target["inner"][0]) == n
        assert all(torch.equal(row["row"].clamp(min=0), labels[:2]) and str(row["k"]) == name
                   for row, labels, name in zip(target["rows"], target["pair"].labels, target["names"]))
        assert target["mode"] == "train" and target["inner"][1] is None and type(target["pair"]) is Pair
        seen.append([row["k"] for row in target["rows"]])
        return target["factor"] * target["pair"].scale * cross_entropy(output.flatten(0, 1), target["pair"].labels.flatten())

    model = pipeline_of(layers, schedule)
    target = collections.OrderedDict(pair=Pair(y.clamp(min=0), scale), factor=3, mode="train", inner=([k for k in range(9)], None),
                                     names=[str(k) for k in range(9)], rows=rows)
    assert abs(model.step(x, target, loss) - expected) <= 1e-12
    models.assert_gradients(model, gradients)
    assert sum(seen, []) == list(range(9)) and len(seen) == (1 if schedule == "gpipe" else 4)
    assert torch.equal(target["pair"].labels, y.clamp(min=0)), "the caller's own is left alone"


def test_parts_of_a_target_are_cut_as_split_says():
    layers, (x, y) = layers_of(), tokens_of()
    table = torch.rand(9, dtype=torch.float64)  # as long as the mini-batch by chance
    target = {"labels": y.clamp(min=0).t(), "table": table, "list": [1] * 9}

    def loss(output, target):
        assert len(target["table"]) == len(target["list"]) == 9
        return token_mean(output, target["labels"].t()) * target["table"].mean()

    expected, gradients, _ = models.plain_gradients(layers, x, target, loss)
    model = pipeline_of(layers, split={"target": {"labels": 1, "table": None, "list": None}})
    assert abs(model.step(x, target, loss) - expected) <= 1e-12
    models.assert_gradients(model, gradients)
    with pytest.raises(pipescope.UsageError, match="split\\['target'\\] names 'labels'"):
        model.step(x, {"table": table}, loss)


def test_targets_that_cannot_be_cut_are_refused_where_they_are_cut():
    x = torch.randn(4, 6, dtype=torch.float64)
    square = lambda out, target: out.square().mean()  # noqa: E731
    pairs = [torch.ones(4) for _ in range(4)]
    wrong = [
        ([torch.ones(3), 3, 5], "holds 3 samples and the input 4"),
        ({"ids": [1, 2, 3]}, "holds 3 samples and the input 4"),
        (pairs, "list of 4 tensors that hold 4 rows each"),
        ({"boxes": object()}, r"the target\['boxes'\] is a object"),
        (torch.ones(4).numpy(), "the target is a ndarray"),
    ]
    model = pipeline_of(layers_of())
    for target, message in wrong:
        with pytest.raises((pipescope.errors.EngineError, TypeError), match=message):
            model.step(x, target, square)
        pipeline_of(layers_of(), "gpipe").step(x, target, square)
    for target in (3, None, "text", tuple(pairs), {}, [], [torch.ones(k + 1) for k in range(4)], [torch.ones(4)]):
        model.step(x, target, square)


# ---- check() ----


def test_check_explains_what_differs():
    x, y = tokens_of()
    labelled = y.clamp(min=0)
    layers = layers_of()
    assert pipescope.check(layers, x, labelled, token_mean)
    found = pipescope.check(layers, x, y, token_mean)
    assert not found and "weight=lambda" in str(found) and found.output_error == 0
    assert pipescope.check(layers, x, y, token_mean, weight=labels_in)
    sums = lambda out, t: cross_entropy(out.flatten(0, 1), t.flatten(), reduction="sum")  # noqa: E731
    found = pipescope.check(layers, x, y, sums)
    assert "give the pipeline reduction='sum'" in found.explanation and found.loss_error > 0.1
    assert pipescope.check(layers, x, y, sums, reduction="sum")
    found = pipescope.check(layers_of(nn.Flatten(0, 1), nn.BatchNorm1d(8), nn.Unflatten(0, (-1, 5))), x, labelled, token_mean)
    assert "statistics of the mini-batch" in found.explanation
    assert "random numbers" in pipescope.check(layers_of(nn.Dropout(0.5)), x, labelled, token_mean).explanation


def test_check_finds_inputs_that_are_cut_wrongly():
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16), nn.Linear(8, 4)).double()
    x, y = torch.randn(6, 4, 6, dtype=torch.float64), torch.randint(4, (6, 4))
    found = pipescope.check(layers, x, y, token_mean, chunks=2)
    assert "split={0: 1, 'target': 1, 'output': 1} the outputs agree" in str(found) and found.output_error > 1e-3
    x, mask, _, y = (each.detach() for each in masked_inputs())
    found = pipescope.check(masked_layers(), x, y, token_mean, mask=mask)
    assert "split={'mask': None} the outputs agree" in found.explanation
    assert pipescope.check(masked_layers(), x, y, token_mean, split={"mask": None}, mask=mask)


class Counting(nn.Module):
    """Carries state from call to call: in a buffer, or elsewhere, always or in train mode only."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.calls = how, 0
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        if self.how != "in train mode" or self.training:
            self.calls += 1
        if self.how != "elsewhere":
            self.count += self.calls - self.count
        if self.how == "by length":
            self.last, last = x, getattr(self, "last", torch.zeros_like(x))
            return x + last.detach()
        return x * self.calls


@pytest.mark.parametrize("how", ["in a buffer", "elsewhere", "in train mode", "by length"])
def test_check_finds_state(how):
    x, y = tokens_of()
    found = pipescope.check(layers_of(Counting(how)), x, y.clamp(min=0), token_mean)
    assert not found and "split" not in found.explanation
    assert "carries state from call to call" in found.explanation
    assert ("buffers that change: 2.count" in found.explanation) == (how != "elsewhere")


def test_check_leaves_the_input_as_it_is():
    class Adding(nn.Module):
        def forward(self, x):
            return x.add_(1)

    x, y = tokens_of()
    before, layers = x.clone(), nn.Sequential(Adding(), *layers_of())
    assert "changed its input in place" in pipescope.check(layers, x, y.clamp(min=0), token_mean).explanation
    assert torch.equal(x, before)
    embedded = nn.Linear(x.shape[-1], x.shape[-1]).double()(x)
    assert pipescope.check(layers_of(), embedded, y.clamp(min=0), token_mean)


class InFloat32(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.3, 0.7, 4).double())

    def forward(self, x):
        return x * (self.scale.float() ** 3).sum().double()  # the gradient of the scale is rounded to float32


def test_check_allows_for_parts_that_compute_in_float32():
    x, y = tokens_of()
    found = pipescope.check(layers_of(InFloat32()), x, y.clamp(min=0), token_mean)
    assert found and found.gradient_error > 1e-10


class AddsNoise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


def test_check_says_so_if_a_model_draws_random_numbers_in_eval_mode():
    x, y = tokens_of()
    found = pipescope.check(layers_of(AddsNoise()), x, y.clamp(min=0), token_mean)
    assert found.explanation.startswith("the model draws random numbers in eval mode")


class ScalesGradients(nn.Module):
    def forward(self, x):
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient / gradient.norm())
        return x


def test_check_says_so_if_only_gradients_differ():
    x, y = tokens_of()
    found = pipescope.check(layers_of(ScalesGradients()), x, y.clamp(min=0), token_mean)
    assert "outputs and losses agree, and gradients do not" in found.explanation and found.loss_error < 1e-12


def test_check_keeps_the_modules_modes():
    x, y = tokens_of()
    for module in (nn.Dropout(0.5), nn.Sequential(nn.Flatten(0, 1), nn.BatchNorm1d(8), nn.Unflatten(0, (-1, 5)))):
        layers = layers_of(module)
        module.eval()
        modes = [each.training for each in layers.modules()]
        assert pipescope.check(layers, x, y.clamp(min=0), token_mean)
        assert [each.training for each in layers.modules()] == modes


def test_check_names_no_other_cause_where_micro_batches_fail():
    x, y = tokens_of()
    layers, labels = nn.Sequential(*layers_of(), nn.Flatten(0, 1)), y.flatten()
    found = pipescope.check(layers, x, labels, nn.CrossEntropyLoss(reduction="sum"), split={"output": 0})
    assert found.explanation.startswith("micro-batches fail: ") and "samples are not the first dimension" not in found.explanation


def test_check_takes_values_that_are_nan_in_both_for_equal():
    x, y = tokens_of()
    nothing = torch.full_like(y, -100)
    assert pipescope.check(layers_of(), x, nothing, token_mean, weight=labels_in)
    x[8, 0, 0] = float("nan")
    assert pipescope.check(layers_of(), x, y, token_mean, weight=labels_in)


def test_the_warning_about_nan_advises_a_weight_only_where_none_is_given(capfd):
    x, y = tokens_of()
    x[8, 0, 0] = float("nan")
    for weight, advised in ((None, "give the pipeline their 'weight'"), (labels_in, "look for a nan")):
        pipeline_of(layers_of(), weight=weight).step(x, y, token_mean)
        said = capfd.readouterr().err
        assert "is nan" in said and advised in said and ("give the pipeline" in said) == (weight is None)
