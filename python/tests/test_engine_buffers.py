"""Layers that compute with buffers which their own forward changes: gradients are those of the plain micro-batches."""

from __future__ import annotations

import contextlib
import copy
import time

import engine_models as models
import pipescope
import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn.utils import parametrizations, parametrize

mse = nn.functional.mse_loss


class Counter(nn.Module):
    """Its buffer is replaced, or changed in place, with or without torch's knowledge."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("c", torch.ones(6, dtype=torch.float64))

    def forward(self, x):
        if self.how == "replaced":
            self.c = self.c + 1
        elif self.how == "grown":
            self.c = torch.cat([self.c, self.c[-1:] + 1])
        elif self.how == "in place":
            self.c.add_(1)
        else:
            self.c.data.add_(1)
        return torch.sin(x * self.c[-6:].clone())


class Codebook(nn.Module):
    """Vector quantization with a moving codebook, and straight-through gradients."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.register_buffer("codes", torch.randn(5, 6, dtype=torch.float64, generator=generator))

    def forward(self, x):
        nearest = torch.cdist(x.detach(), self.codes).argmin(1)
        chosen = self.codes[nearest]
        with torch.no_grad():
            self.codes.data[nearest] = 0.9 * self.codes.data[nearest] + 0.1 * x.detach()
        return x * chosen


class Scripted(nn.Module):
    """For torch.jit.script, with a child of which it replaces the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.child = nn.Module()
        self.child.register_buffer("c", torch.ones(6, dtype=torch.float64))

    def forward(self, x):
        self.child.c = self.child.c + 1
        return torch.sin(x * self.child.c)


def layers_of(kind: str) -> nn.Sequential:
    torch.manual_seed(2)
    first, last = nn.Linear(6, 6), nn.Linear(6, 6)
    if kind == "spectral_norm":
        middle = [nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Tanh()]
    elif kind == "legacy spectral_norm":
        middle = [nn.utils.spectral_norm(nn.Linear(6, 6)), nn.Tanh()]
    elif kind == "codebook":
        middle = [Codebook(), nn.BatchNorm1d(6)]
    elif kind == "scripted":
        middle = [torch.jit.script(Scripted()), nn.Tanh()]
    else:
        middle = [Counter(kind), nn.Tanh()]
    return nn.Sequential(first, *middle, last).double()


KINDS = ["spectral_norm", "legacy spectral_norm", "codebook", "scripted", "replaced", "grown", "in place", "unseen"]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_buffers(kind):
    generator = torch.Generator().manual_seed(7)
    x, y = torch.randn(2, 9, 6, dtype=torch.float64, generator=generator)
    plain = layers_of(kind)
    for _ in range(2):
        for part, target in zip(x.tensor_split(4), y.tensor_split(4)):
            (mse(plain(part), target) * len(part) / len(x)).backward()
    gradients = {name: p.grad for name, p in plain.named_parameters()}
    for checkpoint in ("always", "except_last", "never"):
        for driver, schedule in [("scheduled", "gpipe"), ("scheduled", "1f1b"), ("scheduled", "zero-bubble-h1"),
                                 ("autograd", "gpipe")]:
            for by_step in (True, False):
                if not by_step and schedule != "gpipe":
                    continue
                model = pipescope.GPipe(layers_of(kind), [2, 2], devices=["cpu"] * 2, chunks=4, checkpoint=checkpoint,
                                        driver=driver, schedule=schedule)
                for _ in range(2):
                    if by_step:
                        model.step(x, y, mse)
                    else:
                        mse(model(x), y).backward()
                models.assert_gradients(model, gradients, 1e-10)
                for name, buffer in plain.named_buffers():
                    assert torch.equal(dict(model.named_buffers())[name], buffer), name


@pytest.mark.parametrize("kind", ["spectral_norm", "codebook", "replaced"])
@pytest.mark.parametrize("deferred", [False, True])
def test_staggered_updates_and_deferred_batch_norm(kind, deferred):
    x, y = torch.randn(2, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))

    def trained(checkpoint, is_staggered):
        model = pipescope.GPipe(layers_of(kind), [2, 2], devices=["cpu"] * 2, chunks=4, checkpoint=checkpoint, schedule="1f1b",
                                deferred_batch_norm=deferred)
        optimizers = [torch.optim.SGD(model.lane_parameters(lane), lr=0.1) for lane in range(2)]

        def update(lane):
            optimizers[lane].step()
            optimizers[lane].zero_grad()

        if is_staggered:
            model.train_staggered([(x, y)] * 3, mse, update)
        else:
            for _ in range(3):
                model.step(x, y, mse)
                update(0)
                update(1)
        return model.state_dict()

    expected = trained("never", False)
    for checkpoint in ("always", "except_last"):
        for is_staggered in (False, True):
            for name, value in trained(checkpoint, is_staggered).items():
                assert torch.equal(value, expected[name]), (checkpoint, is_staggered, name)


def test_a_buffer_that_changes_at_times_is_refused_once():
    class Sometimes(Counter):
        calls = 0

        def forward(self, x):
            type(self).calls += 1
            return super().forward(x) if type(self).calls % 3 == 0 else x * self.c

    model = pipescope.GPipe(nn.Sequential(nn.Linear(6, 6), Sometimes("in place")).double(), [1, 1], devices=["cpu"] * 2,
                            chunks=4, checkpoint="always", schedule="1f1b")
    x = torch.randn(8, 6, dtype=torch.float64)
    with pytest.raises(pipescope.Error, match=r"buffer 1\.c was changed.*partition 1.*checkpoint never"):
        model.step(x, x, mse)


class AtTimes(nn.Module):
    """What it computes with, it replaces in some forwards only, and changes in place in others."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))
        self.register_buffer("c", None if how == "from nothing" else torch.ones(6), persistent=how != "not persistent")
        if how == "frozen":
            del self.c
            self.c = nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x):
        self.seen += 1
        new = torch.ones_like(x[0]) if self.c is None else self.c * 1.5
        if self.how == "by input":
            replaces = bool(x.sum() > 0)
        else:
            replaces = self.seen % 3 == 0 if self.how == "thirds" else self.seen % 2 == 0
        if replaces and self.how == "frozen":
            self.c = nn.Parameter(new.detach(), requires_grad=False)
        elif replaces and self.how == "registered":
            self.register_buffer("c", new.detach())
        elif replaces:
            self.c = new.detach()
        elif self.how == "else in place":
            self.c.mul_(0.5)
        return x if self.c is None else x * self.c.clone()


RUNS = [("scheduled", "gpipe"), ("scheduled", "1f1b"), ("scheduled", "zero-bubble-h1"), ("autograd", "gpipe")]  # driver and schedule


def beside_plain(layer, **options):
    """For each driver and schedule: a plain model, a pipeline of equal layers, and both names."""

    def layers():
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(6, 6), layer(), nn.Linear(6, 6)).double()

    for driver, schedule in RUNS:
        model = pipescope.GPipe(layers(), [1, 2], devices=["cpu"] * 2, driver=driver, schedule=schedule, **options)
        yield layers(), model, (driver, schedule)


def backward_in_parts(plain, x, y, chunks):
    for part, target in zip(x.tensor_split(chunks), y.tensor_split(chunks)):
        (mse(plain(part), target) * len(part) / len(x)).backward()


AT_TIMES = ["halves", "thirds", "by input", "frozen", "registered", "not persistent", "from nothing", "else in place"]


@pytest.mark.parametrize("how", AT_TIMES)
@pytest.mark.parametrize("checkpoint", ["always", "except_last"])
def test_a_recompute_finds_the_buffers_of_its_forward_where_some_forwards_replace_them(how, checkpoint):
    x, y = torch.randn(2, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    for plain, model, where in beside_plain(lambda: AtTimes(how), chunks=4, checkpoint=checkpoint):
        for _ in range(3):
            plain.zero_grad()
            model.zero_grad()
            before = copy.deepcopy(model[1])
            try:
                model.step(x, y, mse)
            except pipescope.Error as error:  # a change in place that is the first one
                assert how == "else in place" and "run the step again" in str(error)
                model[1]._buffers.update(before._buffers)
                model.zero_grad()
                model.step(x, y, mse)
            backward_in_parts(plain, x, y, 4)
            models.assert_gradients(model, {name: p.grad for name, p in plain.named_parameters()}, 1e-10)
            for name in ("seen", "c"):
                assert torch.equal(getattr(model[1], name), getattr(plain[1], name)), (name, where)


def test_a_buffer_that_a_staggered_update_replaces_belongs_to_later_steps():
    def trained(checkpoint):
        model = pipescope.GPipe(layers_of("in place"), [2, 2], devices=["cpu"] * 2, chunks=4, checkpoint=checkpoint,
                                schedule="1f1b")

        def update(lane):
            if lane == 0:
                model[1].c = model[1].c * 0.5

        model.train_staggered([(x, x)] * 3, mse, update)
        return model

    x = torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    expected = trained("never")
    for checkpoint in ("always", "except_last"):
        model = trained(checkpoint)
        models.assert_gradients(model, {name: p.grad for name, p in expected.named_parameters()}, 1e-10)
        assert torch.equal(model[1].c, expected[1].c)


class Rebinding(nn.Module):
    """Computes with state below it that its forward puts elsewhere, adds, removes or exchanges."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.state = self.with_value(torch.ones(6, dtype=torch.float64))
        self.inner = nn.ModuleDict({"a": nn.ModuleList([self.with_value(torch.full((6,), 2.0, dtype=torch.float64))])})
        self.register_buffer("gone", torch.ones(6, dtype=torch.float64), persistent=False)
        self.pool = (self.with_value(torch.ones(6, dtype=torch.float64)), self.with_value(torch.zeros(6, dtype=torch.float64)))

    @staticmethod
    def with_value(value):
        module = nn.Module()
        module.register_buffer("value", value)
        return module

    def forward(self, x):
        grown = x.detach().mean(0).tanh() + 1
        if self.how == "submodule":
            self.state = self.with_value(self.state.value * grown)
        elif self.how == "module in a list in a dict":
            self.inner["a"][0] = self.with_value(self.inner["a"][0].value * grown)
            self.state.value = self.inner["a"][0].value
        elif self.how == "module added":
            self.inner["a"].append(self.with_value(grown))
            self.state.value = sum(each.value for each in self.inner["a"])
        elif self.how == "module removed and added":
            if "b" in self.inner:
                del self.inner["b"]
            else:
                self.inner["b"] = self.with_value(grown)
            self.state.value = self.state.value * len(self.inner)
        elif self.how == "module that is None":
            self.extra = None if getattr(self, "extra", None) is not None else self.with_value(grown)
            self.state.value = self.state.value * (2 if self.extra is None else self.extra.value)
        elif self.how == "module that leaves and comes back":
            self.state.value = self.state.value + grown
            result = torch.sin(x * self.state.value)
            self.state = self.pool[1 if self.state is self.pool[0] else 0]
            return result
        elif self.how == "deleted buffer":
            if hasattr(self, "gone"):
                self.state.value = self.state.value * self.gone
                del self.gone
            else:
                self.register_buffer("gone", grown, persistent=False)
        else:
            self.state.value.data = self.state.value * grown
        return torch.sin(x * self.state.value.clone())


REBINDINGS = ["submodule", "module in a list in a dict", "module added", "module removed and added", "module that is None",
              "module that leaves and comes back", "deleted buffer", "other memory"]


@pytest.mark.parametrize("how", REBINDINGS)
@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_a_recompute_finds_the_modules_of_its_forward(how, checkpoint):
    x, y = torch.randn(2, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    for plain, model, where in beside_plain(lambda: Rebinding(how), chunks=3, checkpoint=checkpoint):
        for _ in range(3):
            plain.zero_grad()
            model.zero_grad()
            try:
                model.step(x, y, mse)
            except pipescope.Error as error:
                assert how == "other memory" and "was given other memory" in str(error)
                break
            backward_in_parts(plain, x, y, 3)
            models.assert_gradients(model, {name: p.grad for name, p in plain.named_parameters()}, 1e-10)
            found, expected = model.state_dict(), plain.state_dict()
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                assert torch.equal(found[name], value), (name, where)


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_a_module_that_trains_and_is_made_in_a_forward_is_refused_in_a_recompute(checkpoint):
    class Making(nn.Module):
        def forward(self, x):
            self.made = nn.Linear(6, 6, dtype=torch.float64)
            return self.made(x)

    x = torch.randn(8, 6, dtype=torch.float64)
    model = pipescope.GPipe(nn.Sequential(nn.Linear(6, 6).double(), Making()), [1, 1], devices=["cpu"] * 2, chunks=2,
                            checkpoint=checkpoint)
    if checkpoint == "never":
        model.step(x, x, mse)
        assert model[1].made.weight.grad is not None
        return
    with pytest.raises(pipescope.Error, match=r"layer 1 \(Making\) has bound other parameters.*checkpoint never"):
        model.step(x, x, mse)


class Keeping(nn.Module):
    """Multiplies by what it keeps of its last output."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.linear = nn.Linear(6, 6)
        self.register_buffer("p", None if how == "first" else torch.ones(3, 6))

    def forward(self, x):
        y = self.linear(x)
        if self.p is not None:
            y = y * (1 + self.p.mean())
        if self.how == "replaced":
            self.p = y.detach()
        elif self.how == "view":
            self.p = y.detach()[:1]
        elif self.how == "set_":
            self.p.set_(y.detach())
        elif self.how == "data":
            self.p.data = y.detach()
        elif self.how == "clone":
            self.p = y.detach().clone()
        elif self.p is None:
            self.p = y.detach()
        else:
            self.p.mul_(0.5)
        return y


class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.001)
        return x


@pytest.mark.parametrize("how", ["replaced", "view", "set_", "data", "clone", "first"])
@pytest.mark.parametrize("changes", [True, False])
def test_an_output_that_a_buffer_keeps_must_not_change(how, changes):
    after = {True: [nn.Flatten(), nn.ReLU(inplace=True)], False: [nn.Flatten(), nn.ReLU()]}[changes]
    is_refused = (changes and how != "clone") or how in ("first", "set_")
    torch.manual_seed(2)
    layers = nn.Sequential(Keeping(how), nn.Identity(), Slow(), *after, nn.Linear(6, 6)).double()
    x = torch.randn(9, 6, dtype=torch.float64)
    for driver, schedule in RUNS:
        for by_step in (True, False):
            plain = copy.deepcopy(layers)
            model = pipescope.GPipe(copy.deepcopy(layers), [1, 3, 2], devices=["cpu"] * 3, chunks=3, checkpoint="never",
                                    driver=driver, schedule=schedule)

            def run():
                if by_step:
                    return model.step(x, x, mse)
                with torch.no_grad():
                    return model(x)

            if is_refused:
                with pytest.raises(pipescope.Error, match="partition 0 .*buffer 0.p keeps.*clone"):
                    run()
                assert model.last_failure[3] == "Keeping"
                continue
            value = run()
            with torch.set_grad_enabled(by_step):
                outputs = [plain(part) for part in x.tensor_split(3)]
            if by_step:
                mse(torch.cat(outputs), x).backward()
                models.assert_gradients(model, {name: p.grad for name, p in plain.named_parameters()}, 1e-10)
            else:
                assert torch.allclose(value, torch.cat(outputs), rtol=1e-12, atol=1e-12)
            assert torch.allclose(model[0].p, plain[0].p, rtol=1e-12, atol=1e-12)


def test_a_buffer_that_is_an_output_needs_no_copy():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.ones(1, 6).expand(4, 6))
            self.weight = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return x * self.weight, self.mask[: len(x)], self.weight.expand(len(x), 6)

    class Uses(nn.Module):
        def __init__(self, changes):
            super().__init__()
            self.changes = changes

        def forward(self, given):
            x, mask, weight = given
            return x * (mask.mul_(2) if self.changes else mask) + weight

    x = torch.randn(8, 6)
    for changes in (False, True):
        layers = nn.Sequential(Masked(), Uses(changes))
        layers[0].mask = torch.ones(4, 6)
        model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=2, checkpoint="never", schedule="1f1b")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if changes:
            with pytest.raises(pipescope.Error, match="memory that it returned|buffer 0.mask keeps"):
                model.step(x, x, mse)
        else:
            for _ in range(3):
                model.step(x, x, mse)
                optimizer.step()


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
def test_a_parameter_unfrozen_or_frozen_before_the_backward_gets_no_gradient(checkpoint, driver):
    torch.manual_seed(2)
    plain = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)).double()
    x = torch.randn(8, 6, dtype=torch.float64)
    for trains in (True, False):
        layers = copy.deepcopy(plain)
        plain[1].weight.requires_grad_(trains)
        layers[1].weight.requires_grad_(trains)
        model = pipescope.GPipe(layers, [1, 2], devices=["cpu"] * 2, chunks=4, checkpoint=checkpoint, driver=driver)
        for each in (plain, model):
            each.zero_grad()
            loss = mse(each(x), x)
            each[1].weight.requires_grad_(not trains)
            loss.backward()
            assert each[1].weight.requires_grad is not trains
        models.assert_gradients(model, {name: p.grad for name, p in plain.named_parameters()}, 1e-10)


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1"])
def test_a_parameter_that_a_layer_unfreezes_gets_the_gradients_of_later_forwards(checkpoint, schedule):
    class Unfreezing(nn.Linear):
        def forward(self, x):
            self.seen += 1
            if self.seen == 3:
                self.weight.requires_grad_(True)
            return super().forward(x)

    torch.manual_seed(2)
    layers = nn.Sequential(nn.Linear(6, 6), Unfreezing(6, 6)).double()
    layers[1].weight.requires_grad_(False)
    layers[1].register_buffer("seen", torch.zeros((), dtype=torch.int64))
    plain = copy.deepcopy(layers)
    model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=4, checkpoint=checkpoint, schedule=schedule)
    x = torch.randn(8, 6, dtype=torch.float64)
    model.step(x, x, mse)
    for part in x.chunk(4):
        (mse(plain(part), part) / 4).backward()
    models.assert_gradients(model, {name: p.grad for name, p in plain.named_parameters()}, 1e-10)


def test_a_recompute_of_another_form_is_refused():
    class Odd(nn.Module):
        def __init__(self, again) -> None:
            super().__init__()
            self.again, self.calls = again, 0

        def forward(self, x):
            self.calls += 1
            return x if self.calls <= 2 else self.again(x)

    forms = [(lambda x: (x,), "returned a tensor .*partition 1 .* a tuple"), (lambda x: x[:1].double(), r"partition 1 .*Float \[2, 6\].*Double \[1, 6\]"),
             (lambda x: [x, x], "returned a tensor .*partition 1 .* a list")]
    for again, message in forms:
        model = pipescope.GPipe(nn.Sequential(nn.Linear(6, 6), Odd(again)), [1, 1], devices=["cpu"] * 2, chunks=2,
                                checkpoint="always")
        with pytest.raises(pipescope.Error, match=f"{message}.*checkpoint never"):
            model.step(torch.randn(4, 6), torch.randn(4, 6), mse)


def test_buffers_stay_right_after_a_recompute_that_failed():
    class Failing(nn.Module):
        fails = False

        def forward(self, x):
            if Failing.fails and pipescope.is_recomputing():
                raise ArithmeticError("once")
            return x

    x = torch.randn(8, 6, dtype=torch.float64)
    plain = layers_of("replaced")
    layers = nn.Sequential(plain[0], Failing(), *copy.deepcopy(plain[1:]))
    model = pipescope.GPipe(layers, [1, 4], devices=["cpu"] * 2, chunks=4, checkpoint="always")
    Failing.fails = True
    with pytest.raises(ArithmeticError):
        model.step(x, x, mse)
    Failing.fails = False
    assert model[2].c[0] == 5
    model.zero_grad()
    model.step(x, x, mse)
    assert model[2].c[0] == 9
    gradients = [p.grad.clone() for p in model.parameters()]
    model[2].c = torch.full((6,), 5.0, dtype=torch.float64)
    model.zero_grad()
    for part in x.chunk(4):
        (mse(layers(part), part) / 4).backward()
    for one, other in zip(model.parameters(), gradients):
        assert (one.grad - other).abs().max() < 1e-12


def test_a_copy_of_the_model_learns_anew():
    x = torch.randn(8, 6, dtype=torch.float64)
    model = pipescope.GPipe(layers_of("in place"), [2, 2], devices=["cpu"] * 2, chunks=4)
    model.step(x, x, mse)
    other = copy.deepcopy(model)
    for each in (model, other):
        each.zero_grad()
        each.step(x, x, mse)
    models.assert_gradients(other, {name: p.grad for name, p in model.named_parameters()})


class CachedCell(nn.Module):
    """Uses one parametrized weight ten times, as torch recommends for recurrent cells."""

    def __init__(self):
        super().__init__()
        self.inner = parametrizations.weight_norm(nn.Linear(8, 8))
        self.outer = nn.Linear(8, 8)

    def forward(self, x):
        state = torch.zeros_like(x)
        with parametrize.cached():
            for _ in range(10):
                state = torch.tanh(self.inner(state) + self.outer(x))
        return state


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize("mode", ["always", "except_last", "never"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1"])
def test_cached_parametrizations_belong_to_one_task(outside, mode, schedule):
    torch.manual_seed(3)
    layers = [CachedCell().double() for _ in range(3)]
    plain = copy.deepcopy(nn.Sequential(*layers))
    model = pipescope.GPipe(
        nn.Sequential(*layers), [1, 1, 1], devices=["cpu"] * 3, chunks=4, checkpoint=mode, schedule=schedule
    )
    x = torch.randn(8, 8, dtype=torch.float64)
    for _ in range(6):
        plain.zero_grad()
        model.zero_grad()
        nn.functional.mse_loss(plain(x), x).backward()
        with parametrize.cached() if outside else contextlib.nullcontext():
            model.step(x, x, nn.functional.mse_loss)
        for expected, parameter in zip(plain.parameters(), model.parameters()):
            torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-10, atol=1e-12)


def test_parametrized_layers_compile_beside_a_pipeline():
    layers = [CachedCell(), CachedCell()]
    model = pipescope.GPipe(nn.Sequential(*layers), [1, 1], devices=["cpu"] * 2, chunks=2)
    x = torch.randn(4, 8)
    model.step(x, x, mse)
    plain = parametrizations.weight_norm(nn.Linear(8, 8))
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), plain(x))


def test_a_module_may_hold_its_parent():
    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.parent = parent

        def forward(self, x):
            return self.linear(x)

    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = Child(self)

        def forward(self, x):
            return self.child(x)

    model = pipescope.GPipe(
        nn.Sequential(nn.Linear(6, 6), Parent()), [1, 1], devices=["cpu"] * 2, chunks=2, checkpoint="always"
    )
    x = torch.randn(4, 6)
    model.step(x, x, nn.functional.mse_loss)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_an_exception_in_a_recompute_of_torch_checkpoint_arrives():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.calls = 0

        def body(self, x):
            self.calls += 1
            if self.calls == 2:
                raise ValueError("in the recompute")
            return torch.sin(self.linear(x))

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)

    model = pipescope.GPipe(
        nn.Sequential(nn.Linear(6, 6), Layer()), [1, 1], devices=["cpu"] * 2, chunks=1, checkpoint="never"
    )
    x = torch.randn(4, 6)
    with pytest.raises(ValueError, match="in the recompute"):
        model.step(x, x, nn.functional.mse_loss)
    model.step(x, x, nn.functional.mse_loss)
