"""GPipe as a torch.nn.Module: copies, files, hooks, modes, structures, errors."""

from __future__ import annotations

import contextvars
import copy
import io
import pickle
import sys
import threading
import types
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple, Optional

import engine_models as models
import pipescope
import pytest
import torch
from torch import nn

mse = nn.functional.mse_loss
TWO = {"devices": ["cpu", "cpu"], "chunks": 4}


def mlp(width: int = 6, layers: int = 2) -> nn.Sequential:
    return nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.Tanh())])


def pipeline_of(layers, **options):
    return pipescope.GPipe(layers, [1, len(layers) - 1], **{**TWO, **options})


# ---- A module like any other ----


def test_parameters_and_state_have_the_plain_models_keys():
    layers = nn.Sequential(OrderedDict(stem=nn.Linear(6, 6), norm=nn.BatchNorm1d(6), balance=nn.Linear(6, 2)))
    model = pipeline_of(layers)
    assert list(model.state_dict()) == list(layers.state_dict())
    assert [id(p) for p in model.parameters()] == [id(p) for p in layers.parameters()]
    assert model.balance == [1, 2] and len(model) == 3 and model[-1] is layers[-1] and list(model) == list(layers)
    other = copy.deepcopy(layers)
    model.load_state_dict(other.state_dict())
    x = torch.randn(8, 6)
    assert torch.allclose(model.eval()(x), other.eval()(x))


def test_a_list_of_modules_and_a_cut_by_names():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 6)
            self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)])
            self.head = nn.Linear(6, 2)

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    plain = Model()
    tokens = torch.randint(10, (8, 4))
    layers = pipescope.cut(plain, "embed", "blocks.*", "head", sample=tokens)
    model = pipescope.GPipe(layers, [2, 3], **TWO)
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert torch.allclose(model(tokens), plain(tokens))
    model.load_state_dict(Model().state_dict())
    assert torch.allclose(model(tokens), plain(tokens))
    with pytest.raises(pipescope.UsageError, match="no layer holds head.weight"):
        pipescope.cut(plain, "embed", "blocks.*")
    with pytest.raises(pipescope.UsageError, match="no submodule 'tail'"):
        pipescope.cut(plain, "embed", "tail")
    assert torch.equal(pipescope.GPipe([nn.Identity(), nn.ReLU()], [1, 1], **TWO)(-torch.ones(4)), torch.zeros(4))


def test_a_cut_that_computes_something_else_is_refused():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    with pytest.raises(pipescope.UsageError, match="do not compute what the model computes"):
        pipescope.cut(Model(), "first", "second", sample=torch.randn(4, 6))


@dataclass
class Output:
    """As models of Hugging Face return."""

    loss: Optional[torch.Tensor]
    logits: torch.Tensor
    states: tuple


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, hidden, mask=None):
        return (torch.tanh(self.linear(hidden)), None)


class LikeHuggingFace(nn.Module):
    def __init__(self, of_pairs: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.blocks = nn.ModuleList([Block() if of_pairs else nn.Linear(6, 6) for _ in range(2)])
        self.head = nn.Linear(6, 2)

    def forward(self, tokens=None, mask=None):
        hidden = self.embed(tokens)
        states = [hidden]
        for block in self.blocks:
            hidden = block(hidden)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            states.append(hidden)
        return Output(None, self.head(hidden), tuple(states))


class Tokens(nn.Module):
    def __init__(self, embed: nn.Module) -> None:
        super().__init__()
        self.embed = embed

    def forward(self, batch):
        return self.embed(batch["tokens"])


def test_a_cut_of_a_model_that_takes_and_returns_more_than_a_tensor_is_checked():
    tokens = torch.randint(10, (8, 4))
    plain = LikeHuggingFace(of_pairs=False)
    assert list(pipescope.cut(plain, "embed", "blocks.*", "head", sample=tokens)) == ["embed", "blocks.0", "blocks.1", "head"]
    plain.embed = Tokens(plain.embed)
    plain.forward = lambda tokens, mask: LikeHuggingFace.forward(plain, {"tokens": tokens}, mask)
    assert pipescope.cut(plain, "embed", "blocks.*", "head", sample={"tokens": tokens, "mask": None})
    with pytest.raises(pipescope.UsageError, match=r"(?s)do not compute.*layer blocks.1 \(Block\) was given a tuple"):
        pipescope.cut(LikeHuggingFace(of_pairs=True), "embed", "blocks.*", "head", sample=tokens)
    other = LikeHuggingFace(of_pairs=False)
    other.head.register_forward_hook(lambda _module, _inputs, output: output + torch.rand(()))
    with pytest.raises(pipescope.UsageError, match="do not compute"):
        pipescope.cut(other, "embed", "blocks.*", "head", sample=tokens)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = Adds()

        def forward(self, x, y):
            return self.both((x, y))

    assert len(pipescope.cut(Two(), "both", sample=(torch.ones(2), torch.ones(2)))) == 1


def test_a_sample_of_keywords_reaches_the_first_layer_of_a_cut_as_the_model():
    class Embed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 6)

        def forward(self, tokens, scale=1.0):
            return self.table(tokens) * scale

    class Net(nn.Module):
        def __init__(self, embed: nn.Module) -> None:
            super().__init__()
            self.embed, self.head = embed, nn.Linear(6, 2)

        def forward(self, tokens, **others):
            return self.head(self.embed(tokens, **others))

    tokens = torch.randint(10, (8, 4))
    assert len(pipescope.cut(Net(Embed()), "embed", "head", sample={"tokens": tokens})) == 2
    assert len(pipescope.cut(Net(Embed()), "embed", "head", sample={"tokens": tokens, "scale": 2.0})) == 2
    assert len(pipescope.cut(Net(nn.Embedding(10, 6)), "embed", "head", sample={"tokens": tokens})) == 2


class Adds(nn.Module):
    def forward(self, pair):
        return pair[0] + pair[1]


def test_deepcopy_and_pickle():
    model = pipeline_of(mlp(), seed=3)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    model.step(x, y, mse)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        assert twin.next_step == 1 and twin.balance == model.balance
        assert all(one is not other and torch.equal(one, other)
                   for one, other in zip(model.parameters(), twin.parameters()))
        twin.zero_grad()
        twin.step(x, y, mse)
        assert twin.next_step == 2


def test_casts_and_takes_moves_to_its_lanes_devices():
    model = pipeline_of(mlp())
    model.to(torch.float64)
    x = torch.randn(8, 6, dtype=torch.float64)
    assert model(x).dtype == torch.float64
    model.half().float()
    for move in (model.cpu, lambda: model.to("cpu"), lambda: model.to(device="cpu"), lambda: model.to("cpu", torch.float64)):
        assert move() is model
    assert model.to(x)[0].weight.dtype == torch.float64
    assert model(x).dtype == torch.float64
    for move in (model.cuda, lambda: model.cuda(1), lambda: model.to("meta"), lambda: model.to(device="cuda:0")):
        with pytest.raises(TypeError, match="which none of its lanes has; .* the devices it was built with, cpu"):
            move()
    lanes = types.SimpleNamespace(devices=["cpu", "meta"], partitions=[(0, 1, 0, "cpu", True), (1, 3, 1, "meta", True)])
    model.__dict__["_model"] = lanes  # a device that every machine has
    assert model.cpu() is model and not model[0].weight.is_meta and not model[2].weight.is_meta
    assert model.to("meta") is model and not model[0].weight.is_meta and model[2].weight.is_meta


def test_replaced_parameters_are_trained():
    model = pipeline_of(mlp().double())
    x, y = (torch.randn(8, 6, dtype=torch.float64) for _ in range(2))
    model.step(x, y, mse)
    model[0].weight = nn.Parameter(torch.randn(6, 6, dtype=torch.float64))
    for parameter in model.parameters():
        parameter.grad = None
    _, gradients, _ = models.plain_gradients(nn.Sequential(*model), x, y, mse)
    model.step(x, y, mse)
    models.assert_gradients(model, gradients)
    model[2].requires_grad_(False)
    model.zero_grad(set_to_none=True)
    model.step(x, y, mse)
    assert model[2].weight.grad is None and model[0].weight.grad is not None


def test_modes_of_the_layers_stay_and_follow():
    layers = nn.Sequential(nn.BatchNorm1d(6).eval(), nn.Linear(6, 6), nn.Dropout(0.5))
    model = pipeline_of(layers)
    assert not layers[0].training and layers[1].training
    model.eval()
    assert not layers[2].training
    x = torch.randn(8, 6)
    assert torch.equal(model(x), model(x))


def test_no_grad_autocast_and_inference_mode():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    with torch.no_grad():
        assert not model(x).requires_grad
    with torch.inference_mode():
        assert model(x).is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model[0](x).dtype == torch.bfloat16
        assert pipescope.GPipe([nn.Linear(6, 6), nn.Linear(6, 6)], [1, 1], **TWO)(x).dtype == torch.bfloat16


def test_an_empty_model_is_the_identity():
    model = pipescope.GPipe(nn.Sequential(), [])
    x = torch.randn(3)
    assert model(x) is x
    with pytest.raises(TypeError):
        model(42)


# ---- Structures ----


class Check(nn.Module):
    def __init__(self, expected, result):
        super().__init__()
        self.expected, self.result = expected, result

    def forward(self, value):
        assert type(value) is self.expected
        tensor = value if isinstance(value, torch.Tensor) else value[0]
        return self.result(tensor)


@pytest.mark.parametrize("checkpoint", ["always", "never"])
def test_tensors_tuples_and_lists_arrive_as_they_left(checkpoint):
    layers = nn.Sequential(nn.Linear(6, 6), Check(torch.Tensor, lambda x: (x,)), Check(tuple, lambda x: [x]),
                           Check(list, lambda x: [x, x]), Check(list, lambda x: (x, x)), Check(tuple, lambda x: x),
                           Check(torch.Tensor, lambda x: (x,)))
    for balance in ([1] * 7, [2, 5], [7]):
        model = pipescope.GPipe(layers, balance, devices=["cpu"] * len(balance), chunks=3, checkpoint=checkpoint)
        out = model(torch.randn(6, 6))
        assert type(out) is tuple and len(out) == 1
        out[0].sum().backward()


def test_singleton_tuples_go_in():
    model = pipescope.GPipe([Check(tuple, lambda x: x)], [1], devices=["cpu"])
    assert model((torch.ones(4),)).shape == (4,)
    with pytest.raises(AssertionError):
        model(torch.ones(4))


@pytest.mark.parametrize("value", ["hello", None, 3, (torch.ones(1), 3), {"x": {1.5}}, (), {}, [None]])
def test_other_structures_are_refused(value):
    class Returns(nn.Module):
        def forward(self, x):
            return value

    model = pipescope.GPipe([nn.Identity(), Returns()], [1, 1], **TWO)
    with pytest.raises(TypeError, match=r"layer 1 \(Returns\) returned"):
        model(torch.ones(4))
    with pytest.raises(TypeError):
        model(value)


def test_what_a_refused_value_holds_is_named():
    class Returns(nn.Module):
        def forward(self, x):
            return {"x": x, "more": [x, 3]}

    with pytest.raises(TypeError, match=r"returned int at \['more'\]\[1\] of a dict"):
        pipescope.GPipe([Returns()], [1], devices=["cpu"])(torch.ones(4))


class State(NamedTuple):
    hidden: torch.Tensor
    mask: Optional[torch.Tensor]


class Nests(nn.Module):
    """Wraps its input in a structure that the next one undoes."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(6, 6)

    def forward(self, value):
        kind = type(value).__name__
        hidden = {"Tensor": lambda: value, "tuple": lambda: value[0], "dict": lambda: value["state"][0],
                  "State": lambda: value.hidden, "OrderedDict": lambda: value["hidden"]}[kind]()
        if kind == "tuple":
            assert value[1] is None and value[2][0].shape[0] == 2  # (h, c) of an LSTM: samples in dimension 1
        x = torch.tanh(self.linear(hidden))
        return {
            "plain": lambda: x,
            "tuple": lambda: (x, None, (x.detach().T.reshape(2, 3, -1), x)),
            "dict": lambda: {"state": [x, (x, None)], "more": None},
            "named": lambda: State(x, None),
            "ordered": lambda: OrderedDict(hidden=x),
        }[self.kind]()


@pytest.mark.parametrize("checkpoint", ["always", "never"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1"])
def test_nested_structures_and_none_arrive_as_they_left(checkpoint, schedule):
    layers = nn.Sequential(*map(Nests, ("tuple", "dict", "named", "ordered", "tuple", "dict"))).double()
    x = torch.randn(6, 6).double()

    def loss(output, _):
        assert list(output) == ["state", "more"] and output["more"] is None
        return output["state"][1][0].square().mean()

    expected, gradients, _ = models.plain_gradients(layers, x, x, loss)
    for balance in ([6], [2, 4], [1, 1, 1, 1, 1, 1]):
        model = pipescope.GPipe(copy.deepcopy(layers), balance, devices=["cpu"] * len(balance), chunks=3,
                                checkpoint=checkpoint, schedule=schedule)
        assert abs(model.step(x, x, loss) - expected) <= 1e-12
        models.assert_gradients(model, gradients)
        if schedule == "gpipe":
            model.zero_grad()
            output = model(x)
            assert output["state"][0].shape == (6, 6)
            loss(output, None).backward()
            models.assert_gradients(model, gradients)


def test_outputs_of_micro_batches_that_cannot_be_joined_are_refused():
    class Chooses(nn.Module):
        def forward(self, x):
            return (x, None) if pipescope.current_micro_batch() == 0 else (None, x)

    model = pipescope.GPipe([Chooses()], [1], devices=["cpu"], chunks=2, checkpoint="never")
    with pytest.raises(pipescope.errors.EngineError, match="one with other contents for another"):
        model(torch.ones(4, 2, requires_grad=True))


def test_an_exception_says_which_layer_raised_it():
    model = pipescope.GPipe([Nests("tuple"), nn.Linear(6, 6)], [1, 1], **TWO)
    with pytest.raises(TypeError) as raised:
        model(torch.randn(4, 6))
    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == ["raised in layer 1 (Linear), which was given a tuple"]


def test_exports_and_traces_are_refused():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    with pytest.raises(pipescope.UsageError, match="export the plain nn.Sequential"):
        torch.jit.trace(model, (x,))
    with pytest.raises(Exception, match="export the plain nn.Sequential"):
        torch.export.export(model, (x,), strict=False)


# ---- Hooks ----


def test_module_hooks_run_once_per_micro_batch():
    model = pipeline_of(mlp(), checkpoint="never")
    calls = {"pre": 0, "forward": 0, "backward": 0, "whole": 0}
    lock = threading.Lock()

    def count(what):
        def hook(*_args):
            with lock:
                calls[what] += 1

        return hook

    model[0].register_forward_pre_hook(count("pre"))
    model[2].register_forward_hook(count("forward"))
    model[2].register_full_backward_hook(count("backward"))
    model.register_forward_hook(count("whole"))
    model(torch.randn(8, 6)).sum().backward()
    assert calls == {"pre": 4, "forward": 4, "backward": 4, "whole": 1}


@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
def test_parameter_hooks_see_the_steps_gradient_once(driver):
    layers = mlp().double()
    x, y = (torch.randn(8, 6, dtype=torch.float64) for _ in range(2))
    _, gradients, _ = models.plain_gradients(layers, x, y, mse)
    model = pipeline_of(layers, driver=driver, checkpoint="never")
    seen, after = [], []
    model[0].weight.register_hook(lambda gradient: seen.append(gradient.clone()) or 2 * gradient)
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: after.append(parameter.grad.clone()))
    for step in (lambda: mse(model(x), y).backward(), lambda: model.step(x, y, mse)):
        seen.clear(), after.clear()
        model.zero_grad()
        step()
        assert len(seen) == 1 and len(after) == 1
        assert (seen[0] - gradients["0.weight"]).abs().max() <= 1e-12
        assert (after[0] - 2 * gradients["0.weight"]).abs().max() <= 1e-12


# ---- Where a layer runs ----


def test_layers_know_their_micro_batch_and_their_callers_context():
    variable = contextvars.ContextVar("variable", default="none")
    seen = set()

    class Look(nn.Module):
        def forward(self, x):
            seen.add((pipescope.current_micro_batch(), variable.get(), threading.current_thread() is caller))
            return x * 1

    caller = threading.current_thread()
    model = pipescope.GPipe([Look(), Look()], [1, 1], **TWO)
    variable.set("mine")
    model(torch.ones(4))
    assert seen == {(k, "mine", False) for k in range(4)}
    assert pipescope.current_micro_batch() is None


@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
def test_checkpointing_and_recomputing_are_told(driver):
    seen = []

    class Look(nn.Module):
        def forward(self, x):
            seen.append((pipescope.is_checkpointing(), pipescope.is_recomputing()))
            return x * 1

    model = pipescope.GPipe([Look()], [1], devices=["cpu"], chunks=2, checkpoint="except_last", driver=driver)
    model(torch.ones(4, requires_grad=True)).sum().backward()
    assert sorted(seen) == [(False, False), (False, True), (True, False)]


def test_replaced_and_changed_buffers_see_each_micro_batch_once():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("replaced", torch.zeros(()))
            self.register_buffer("changed", torch.zeros(()))

        def forward(self, x):
            self.replaced = self.replaced + 1
            self.changed += 1
            return x * 1

    for checkpoint in ("always", "never"):
        layer = Counter()
        model = pipescope.GPipe([layer, nn.Linear(1, 1)], [1, 1], checkpoint=checkpoint, **TWO)
        for _ in range(3):
            model(torch.ones(4, 1, requires_grad=True)).sum().backward()
        assert layer.replaced == 12 and layer.changed == 12


def test_deferred_batch_norm():
    norm = nn.BatchNorm1d(6)
    x = torch.randn(12, 6)
    plain = copy.deepcopy(norm)
    plain(x)
    pipescope.GPipe([norm], [1], devices=["cpu"], chunks=3, deferred_batch_norm=True)(x)
    assert torch.allclose(norm.running_mean, plain.running_mean)
    assert torch.allclose(norm.running_var, plain.running_var)
    assert norm.num_batches_tracked == 1


# ---- Errors ----


class Odd(Exception):
    def __init__(self, number, *, detail):
        super().__init__(number)
        self.number, self.detail = number, detail


class Raises(nn.Module):
    def __init__(self, when="forward"):
        super().__init__()
        self.when = when

    def forward(self, x):
        if self.when == "forward" or (self.when == "recompute" and pipescope.is_recomputing()):
            raise Odd(7, detail="why")
        return RaisesBackward.apply(x) if self.when == "backward" else x * 1


class RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise Odd(7, detail="why")


@pytest.mark.parametrize("when", ["forward", "recompute", "backward"])
@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
@pytest.mark.parametrize("call", ["step", "backward"])
def test_exceptions_arrive_unchanged_and_the_model_stays_usable(when, driver, call):
    layer = Raises(when)
    model = pipescope.GPipe([nn.Linear(6, 6), layer, nn.Linear(6, 6)], [1, 2], checkpoint="always", driver=driver, **TWO)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    for _ in range(3):
        with pytest.raises(Odd) as caught:
            model.step(x, y, mse) if call == "step" else mse(model(x), y).backward()
        assert (caught.value.number, caught.value.detail) == (7, "why")
    if driver == "scheduled":
        assert model.last_failure[1] == 1
    layer.when = "never"
    model.zero_grad()
    model.step(x, y, mse)
    assert all(p.grad is not None for p in model.parameters())


def test_a_loss_that_is_no_loss():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    with pytest.raises(TypeError, match="loss function returned float"):
        model.step(x, x, lambda output, target: 3.0)
    with pytest.raises(Odd):
        model.step(x, x, lambda output, target: (_ for _ in ()).throw(Odd(1, detail="")))
    with pytest.raises(RuntimeError, match="no value|scalar|one value|loss"):
        model.step(x, x, lambda output, target: output)


def test_what_is_refused_says_so():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6, requires_grad=True)
    output = model(x)
    with pytest.raises(RuntimeError, match="create_graph"):
        output.sum().backward(create_graph=True)
    with pytest.raises(RuntimeError, match="autograd::grad"):
        torch.autograd.grad(model(x).sum(), x)
    output = model(x)
    output.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        output.sum().backward()
    with pytest.raises(pipescope.UsageError, match="loss inside"):
        pipeline_of(mlp(), schedule="1f1b")(x)
    shared = nn.Linear(6, 6)
    with pytest.raises(pipescope.UsageError, match="same module"):
        pipescope.GPipe([shared, shared], [1, 1], **TWO)
    twin = nn.Linear(6, 6)
    twin.weight = shared.weight
    with pytest.raises(pipescope.errors.EngineError, match="is also 0.weight"):
        pipescope.GPipe([shared, twin], [1, 1], **TWO)
    for wrong in ({"chunks": 0}, {"checkpoint": "sometimes"}, {"driver": "me"}, {"schedule": "magic"}, {"reduction": "max"}):
        with pytest.raises(ValueError):
            pipeline_of(mlp(), **wrong)
    with pytest.raises(pipescope.BalanceError):
        pipescope.GPipe(mlp(), [1, 1], **TWO)
    with pytest.raises(pipescope.UsageError, match="cut"):
        pipescope.GPipe(nn.Linear(1, 1), [1])


def test_a_layer_that_calls_its_own_model_is_refused():
    class Calls(nn.Module):
        def forward(self, x):
            return self.__dict__["model"](x)

    layer = Calls()
    model = pipescope.GPipe([layer], [1], devices=["cpu"])
    layer.__dict__["model"] = model
    with pytest.raises(RuntimeError, match="a lane cannot wait for itself"):
        model(torch.ones(2))


# ---- Threads ----


def test_one_model_from_several_threads():
    model = pipeline_of(mlp().double(), checkpoint="never")
    x = torch.randn(8, 6, dtype=torch.float64)
    with torch.no_grad():
        expected = model(x)
    failures = []

    def work():
        for _ in range(20):
            with torch.no_grad():
                if not torch.equal(model(x), expected):
                    failures.append("values differ")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_models_come_and_go_without_threads_left_behind():
    before = threading.active_count()
    for _ in range(30):
        pipeline_of(mlp())(torch.randn(8, 6)).sum().backward()
    assert threading.active_count() <= before + 4


# ---- Skips and balance ----


@pytest.mark.parametrize("checkpoint", ["always", "never"])
def test_skips(checkpoint):
    from pipescope.skip import Namespace, pop, skippable, stash

    @skippable(stash=["early"])
    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x):
            yield stash("early", x)
            return self.linear(x)

    @skippable(pop=["early"])
    class Head(nn.Module):
        def forward(self, x):
            early = yield pop("early")
            return x * early

    inner, outer = Namespace(), Namespace()
    layers = nn.Sequential(Stem().isolate(outer), Stem().isolate(inner), nn.Tanh(), Head().isolate(inner),
                           Head().isolate(outer)).double()
    x, y = (torch.randn(8, 6, dtype=torch.float64) for _ in range(2))
    loss, gradients, _ = models.plain_gradients(layers, x, y, mse)
    model = pipescope.GPipe(layers, [1, 2, 2], devices=["cpu"] * 3, chunks=4, checkpoint=checkpoint)
    assert abs(model.step(x, y, mse) - loss) <= 1e-12
    models.assert_gradients(model, gradients)
    with pytest.raises(TypeError, match="do not match"):
        pipescope.GPipe(nn.Sequential(Stem(), nn.Tanh()), [1, 1], **TWO)
    compiled = nn.Sequential(*[torch.compile(layer, backend="eager") for layer in copy.deepcopy(layers)])
    model = pipescope.GPipe(compiled, [1, 2, 2], devices=["cpu"] * 3, chunks=4, checkpoint=checkpoint)
    model.zero_grad()
    assert abs(model.step(x, y, mse) - loss) <= 1e-12
    for found, gradient in zip(model.parameters(), gradients.values()):
        assert (found.grad - gradient).abs().max() <= 1e-12


def test_a_balance_is_found_at_the_first_call():
    model = pipescope.GPipe(nn.Sequential(*[nn.Linear(32, 32) for _ in range(4)]), devices=["cpu"] * 2, chunks=4)
    assert model.balance is None
    model(torch.randn(16, 32)).sum().backward()
    assert len(model.balance) == 2 and sum(model.balance) == 4


@pytest.mark.parametrize("schedule", pipescope.Schedule.names(runnable=True))
def test_every_schedule_is_balanced_as_it_places_its_partitions(schedule):
    layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(8)]).double()
    x, y = torch.randn(16, 8).double(), torch.randn(16, 8).double()
    _, gradients, _ = models.plain_gradients(layers, x, y, mse)
    model = pipescope.GPipe(layers, devices=["cpu"] * 2, chunks=8, schedule=schedule)
    model.step(x, y, mse)
    models.assert_gradients(model, gradients)
    assert len(model.balance) == pipescope.Schedule(schedule, lanes=2, chunks=8).partitions
    given = pipescope.GPipe(copy.deepcopy(layers), model.balance, chunks=8, schedule=schedule)  # devices by default
    assert len(given.devices) == 2


def test_a_schedule_that_no_balance_fits_is_refused_before_anything_is_measured(monkeypatch):
    def measured(*_arguments, **_options):
        raise AssertionError("measured")

    monkeypatch.setattr("pipescope._gpipe.measured_profile", measured)
    layers = [nn.Linear(4, 4) for _ in range(4)]
    for options, message in (
        ({"schedule": "interleaved", "chunks": 5}, "micro-batches"),
        ({"schedule": "pipedream", "chunks": 4}, "schedule is 'pipedream'.*use one of them"),
        ({"schedule": "dualpipe", "chunks": 4}, "schedule is 'dualpipe'; a model runs .*dualpipe-v"),
        ({"schedule": "auto", "chunks": 4}, "schedule is 'auto'"),
    ):
        with pytest.raises(pipescope.UsageError, match=message):
            pipescope.GPipe(layers, devices=["cpu"] * 2, **options).step(torch.randn(8, 4), None, lambda out, _: out.mean())
    with pytest.raises(pipescope.BalanceError, match="1 layers"):
        pipescope.GPipe(layers[:1], schedule="interleaved", chunks=4).step(torch.randn(8, 4), None, lambda out, _: out.mean())


def test_a_balance_that_does_not_fit_is_not_kept():
    model = pipescope.GPipe([nn.Linear(4, 4) for _ in range(4)], placement=[0, 1, 0, 1], chunks=4)
    for _ in range(2):
        with pytest.raises(pipescope.BalanceError, match="give the balance too"):
            model(torch.randn(8, 4))
        assert model.balance is None


@pytest.mark.parametrize("given", [True, False])
def test_a_schedule_object_is_the_order_that_it_holds(tmp_path, given):
    """Whatever its name is: a split backward called gpipe, and three partitions on each lane."""
    layers = nn.Sequential(*[nn.Linear(6, 6) for _ in range(6)]).double()
    x, y = torch.randn(8, 6).double(), torch.randn(8, 6).double()
    _, gradients, _ = models.plain_gradients(layers, x, y, mse)
    held = pipescope.Schedule("zero-bubble-h1", lanes=2, chunks=4)
    named = pipescope.Schedule.from_csv(held.to_csv(), name="gpipe")
    three = pipescope.Schedule("interleaved", lanes=2, chunks=4, partitions=6)
    for schedule, balance in ((named, [3, 3]), (three, [1] * 6)):
        model = pipescope.GPipe(copy.deepcopy(layers), balance if given else None, chunks=4, checkpoint="never",
                                schedule=schedule)
        with model.record(tmp_path / f"{schedule.name}.sqlite", warmup=0):
            model.step(x, y, mse)
        models.assert_gradients(model, gradients)
        trace = pipescope.Trace.open(tmp_path / f"{schedule.name}.sqlite")
        letters = {"forward": "F", "backward": "I" if schedule.splits_backward else "B", "backward_weight": "W"}
        for lane, row in enumerate(schedule.rows):
            ran = [f"{task.partition}{letters[task.kind]}{task.micro_batch}" for task in trace.tasks
                   if task.lane == lane and task.kind in letters]
            assert ran == [cell for cell in row if cell]
        assert trace.options["schedule"] == schedule
        profile = pipescope.profile(layers, x, samples=[2], time_limit_s=0.5)
        assert profile.simulate(**trace.options).schedule == schedule.name
        with pytest.raises(pipescope.UsageError, match="loss inside"):
            model(x)


# ---- What a pipeline would silently do otherwise than the module ----


def test_a_replaced_layer_runs_from_then_on():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    before = model(x)
    model.step(x, torch.randn_like(before), nn.functional.mse_loss)
    name = next(iter(model._modules))
    fresh = nn.Linear(6, 6)
    setattr(model, name, fresh)
    assert not torch.equal(model(x), before)
    model.step(x, torch.randn_like(before), nn.functional.mse_loss)
    assert fresh.weight.grad is not None
    assert model.next_step == 4  # two calls of the model in train(), and two steps


def test_a_sequential_that_does_more_than_its_layers_is_refused():
    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    with pytest.raises(pipescope.UsageError, match="forward of its own"):
        pipescope.GPipe(Own(*mlp()), [1, 2], **TWO)
    hooked = mlp()
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(pipescope.UsageError, match="hooks of its own"):
        pipescope.GPipe(hooked, [1, 2], **TWO)


def test_transforms_of_torch_func_and_forward_mode_are_refused():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    for call in (
        lambda: torch.func.jvp(model, (x,), (torch.ones_like(x),)),
        lambda: torch.func.grad(lambda each: model(each).sum())(x),
        lambda: torch.func.vmap(model)(x.unsqueeze(0)),
    ):
        with pytest.raises(pipescope.UsageError, match="torch.func"):
            call()
    with torch.autograd.forward_ad.dual_level(), pytest.raises(pipescope.UsageError, match="dual tensor"):
        model(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


@pytest.mark.parametrize("checkpoint", ["always", "except_last"])
def test_parameters_that_change_before_a_recompute_are_refused(checkpoint):
    model = pipeline_of(mlp(), checkpoint=checkpoint, chunks=4)
    x = torch.randn(8, 6)
    given = {name: nn.Parameter(torch.randn_like(each)) for name, each in model.named_parameters()}
    with pytest.raises(RuntimeError, match="parameters were replaced"):
        torch.func.functional_call(model, given, (x,)).sum().backward()
    output = model(x)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    with pytest.raises(RuntimeError, match="parameter 0.weight was changed"):
        output.sum().backward()
    output = model(x)
    first = next(model.parameters())
    first.data = first.data.clone()
    with pytest.raises(RuntimeError, match="parameter 0.weight was changed"):
        output.sum().backward()
    model.zero_grad()
    model(x).sum().backward()
    assert all(each.grad is not None for each in model.parameters())


def test_numbers_that_are_none_are_refused():
    assert pipescope.GPipe(mlp(), "2,2", **TWO).balance == [2, 2]
    with pytest.raises(pipescope.BalanceError, match="list of layers"):
        pipescope.GPipe(mlp(), "2;2", **TWO)
    with pytest.raises(TypeError, match="whole number"):
        pipescope.GPipe(mlp(), [1.7, 1.3], **TWO)
    with pytest.raises(TypeError, match="whole number"):
        pipeline_of(mlp(), chunks=2.5)
    with pytest.raises(pipescope.UsageError, match="at most"):
        pipeline_of(mlp(), chunks=10**12)
    with pytest.raises(TypeError, match="give a function"):
        pipeline_of(mlp()).step(torch.randn(8, 6), torch.randn(8, 6), 3)


def test_a_parameter_shared_afterwards_is_refused():
    layers = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model = pipeline_of(layers)
    x = torch.randn(8, 6)
    model.step(x, x, mse)
    own = layers[2].weight
    layers[2].weight = layers[0].weight
    for _ in range(2):
        with pytest.raises(pipescope.Error, match=r"parameter 2\.weight is also 0\.weight"):
            model.step(x, x, mse)
    layers[2].weight = own
    model.step(x, x, mse)


def test_a_layer_added_afterwards_needs_another_balance():
    model = pipeline_of(mlp())
    x = torch.randn(8, 6)
    model.add_module("9", nn.Linear(6, 6))
    with pytest.raises(pipescope.BalanceError, match="Profile.balance"):
        model.step(x, x, mse)
    with pytest.raises(pipescope.BalanceError):
        model(x)


def test_devices_and_functions_that_are_none_are_refused():
    if not torch.cuda.is_available():
        for device in ("cuda", "cuda:1", 0):
            with pytest.raises(pipescope.UsageError, match=r"finds no GPU here.*use 'cpu'"):
                pipeline_of(mlp(), devices=["cpu", device])
        with pytest.raises(pipescope.UsageError, match="finds no GPU here"):
            pipescope.profile(mlp(), torch.randn(2, 6), device="cuda")
    with pytest.raises(TypeError, match="give a function"):
        pipescope.profile(mlp(), torch.randn(2, 6), torch.randn(2, 6), 3)
    for devices, message in (("cpu", r"write it as a list, such as \['cpu'\] \* 2"), (["gpu"] * 2, "device is 'gpu'")):
        with pytest.raises(pipescope.UsageError, match=message):
            pipeline_of(mlp(), devices=devices)
    with pytest.raises(TypeError, match=r"give MSELoss\(\)"):
        pipeline_of(mlp()).step(torch.randn(8, 6), torch.randn(8, 6), nn.MSELoss)
    with pytest.raises(TypeError, match=r"takes \(output\); it is called as loss\(output, target\)"):
        pipeline_of(mlp()).step(torch.randn(8, 6), torch.randn(8, 6), lambda output: output.mean())
    batches = [(torch.randn(8, 6), torch.randn(8, 6))]
    for update, done, name in [(3, print, r"update\(lane\)"), (print, 3, r"done\(loss\)")]:
        with pytest.raises(TypeError, match=name):
            pipeline_of(mlp()).train_staggered(batches, mse, update, done)


def test_options_of_wrong_types_say_what_they_are():
    layers, x, mse = [nn.Linear(4, 4), nn.Linear(4, 4)], torch.randn(4, 4), nn.functional.mse_loss
    for name, value in (
        ("balance", 3), ("devices", 1.5), ("seed", "zz"), ("seed", -1), ("seed", 2**64), ("placement", 3), ("placement", ["a"]),
        ("host_cores", None), ("host_cores", 2**40), ("replicas", 1.5), ("processes", 3), ("chunks", 2**40),
    ):
        with pytest.raises((TypeError, pipescope.UsageError), match=rf"{name} is .*; "):
            pipescope.GPipe(layers, **{"balance": [1, 1], "devices": ["cpu"] * 2, "chunks": 2, name: value})
    model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=2, seed=2**64 - 1)
    for name, call in (
        ("batches", lambda: model.train_staggered(3, mse, lambda lane: None)),
        ("next_step", lambda: setattr(model, "next_step", None)),
        ("max_norm", lambda: pipescope.clip_grad_norm_(model, "1")),
        ("time_limit_s", lambda: pipescope.profile(layers, x, time_limit_s=None)),
        ("co_running_lanes", lambda: pipescope.profile(layers, x, co_running_lanes=1.5)),
        ("batches", lambda: pipescope.profile(layers, x, batches=3)),
        ("profile", lambda: model.record("unused.sqlite", profile=3).__enter__()),
        ("warmup", lambda: model.record("unused.sqlite", warmup=None).__enter__()),
    ):
        with pytest.raises((TypeError, pipescope.UsageError), match=rf"{name} is .*; "):
            call()
