"""Models as their authors wrote them, traced, under what threatens Python modules: what test_engine_breaks.py and
test_engine_module.py ask of layers that run one after the other."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from test_any_model import Language, Repeated, UNet, language_batch, plain_step, squares, worst  # noqa: E402
from test_engine_breaks import check, interrupt  # noqa: E402
from torch import nn  # noqa: E402

functional = nn.functional

HEAD = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {os.path.dirname(__file__)!r})
import torch
from torch import nn
import pipescope
from test_any_model import Language, language_batch
torch.set_num_threads(1)
batch = language_batch(8)
def pipeline(**options):
    torch.manual_seed(0)
    return pipescope.GPipe(Language(), sample=batch, split=["blocks.1"],
                           **{{"devices": ["cpu"] * 2, "chunks": 4, "schedule": "1f1b", **options}})
"""


def pipe_of(model, batch, **options):
    options = {"devices": ["cpu"] * 2, "chunks": 3, "schedule": "1f1b", "split": ["blocks.1"], **options}
    return pipescope.GPipe(model, sample=batch, **options)


def language(**options):
    torch.manual_seed(0)
    return Language(**options).double()


def agree(pipe, model, batch, chunks=3, **more):
    """Asserts that a step has the plain model's loss and gradients."""
    total, expected = plain_step(model, batch, None, chunks)
    model.zero_grad()
    assert abs(float(pipe.step(batch, **more)) - total) < 1e-12
    assert worst(model, expected) < 1e-12


# ---- Forks, signals, threads, the end of the process ----


def test_a_forked_child_may_free_models_and_trace_its_own():
    check("""
        pipe = pipeline()
        pipe.step(batch)
        child = os.fork()
        if child == 0:
            try:
                pipe.step(batch)
            except RuntimeError as error:
                assert "forked" in str(error), error
            model = pipe.module
            del pipe
            own = pipescope.GPipe(model, sample=batch, split=["blocks.1"], devices=["cpu"] * 2, chunks=4, schedule="1f1b")
            own.step(batch)
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        pipe.step(batch)
        print("child", status)
    """, "child 7", head=HEAD)


def test_a_data_loader_of_dicts_with_workers():
    check("""
        pipe = pipeline()
        rows = [{name: each[k] for name, each in batch.items()} for k in range(8)]
        for epoch in range(2):
            for part in torch.utils.data.DataLoader(rows, batch_size=4, num_workers=2):
                pipe.step(part)
        print("steps", pipe.next_step)
    """, "steps 4", head=HEAD)


@pytest.mark.parametrize("call", ["pipe.step(batch)", "pipe(**batch)['loss'].backward()"])
def test_the_process_ends_while_daemon_threads_train(call):
    check(f"""
        def work():
            pipe = pipeline(checkpoint="always", schedule="gpipe")
            while True:
                {call}
                began.set()
        began = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        began.wait()
        time.sleep(0.02)
        print("ends", flush=True)
        sys.exit(5)
    """, "ends", 5, head=HEAD)


@pytest.mark.parametrize("call", ["pipe.step(x, loss=squares)", "pipe(x).sum().backward()", "pipe(x)"])
def test_ctrl_c_ends_a_call_within_a_task(call):
    done = interrupt(f"""
        count = [0]
        @torch.library.custom_op("breaks::slow", mutates_args=())
        def slow(x: torch.Tensor) -> torch.Tensor:
            time.sleep(0.05)
            count[0] += 1
            return x.clone()
        slow.register_fake(lambda x: torch.empty_like(x))
        slow.register_autograd(lambda ctx, gradient: gradient)
        class Slow(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
            def forward(self, x):
                return self.last(slow(slow(self.first(x))))
        def squares(output, batch):
            return output.square().mean()
        pipe = pipescope.GPipe(Slow(), sample=torch.randn(4, 6), split=["last"], devices=["cpu"] * 2, chunks=400, host_cores=2)
        x = torch.randn(400, 6)
        before = count[0]
        print("ready", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", count[0] - before < 100)
        pipe.zero_grad()
        pipe.step(x[:4], loss=squares)
        print("usable")
    """, head=HEAD)
    assert "interrupted True" in done.stdout and "usable" in done.stdout, done.stdout + done.stderr


def test_threads_take_turns():
    model, batch = language(), language_batch()
    pipe = pipe_of(model, batch)
    _, expected = plain_step(model, batch, None, 3)
    model.zero_grad()
    threads = [threading.Thread(target=lambda: [pipe.step(batch) for _ in range(3)]) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert pipe.next_step == 6
    assert worst(model, {name: 6 * each for name, each in expected.items()}) < 1e-12


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux only")
def test_pipelines_and_steps_leave_nothing_behind():
    model, batch = language(dropout=0.1), language_batch()
    layers = pipescope.layers_of(model, batch, split=["blocks.1"])
    options = {"balance": [1, 1], "devices": ["cpu"] * 2, "chunks": 3, "schedule": "1f1b"}

    def come_and_go():
        pipescope.GPipe(layers, **options).step(batch)
        gc.collect()
        return len(os.listdir("/proc/self/task"))

    first = [come_and_go() for _ in range(5)][-1]
    assert max(come_and_go() for _ in range(60)) <= first
    pipe = pipescope.GPipe(layers, **options)

    def steps():
        for _ in range(200):
            model.zero_grad()
            pipe.step(batch)
        return _resident()

    before = steps()
    assert steps() < before + 4e6  # 20 KB a step would be a leak of a micro-batch's tensors


# ---- Exceptions ----


@torch.library.custom_op("breaks::fussy", mutates_args=())
def fussy(x: torch.Tensor) -> torch.Tensor:
    if x.max() > 100:
        raise KeyError("mine, forward")
    return x.clone()


@fussy.register_fake
def _(x):
    return torch.empty_like(x)


def _fussy_backward(ctx, gradient):
    if gradient.abs().max() > 100:
        raise KeyError("mine, backward")
    return gradient


fussy.register_autograd(_fussy_backward)


class Fussy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        x = fussy(x)  # this line
        return self.last(x)


def raised_by(pipe, call, kind):
    with pytest.raises(kind) as raised:
        call()
    return raised.value, "\n".join(getattr(raised.value, "__notes__", ["no note"]))


@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="since Python 3.11")
@pytest.mark.parametrize("checkpoint", ["never", "always"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_an_exception_names_the_module_and_the_line_of_the_model(schedule, checkpoint):
    torch.manual_seed(0)
    batch = language_batch()
    pipe = pipe_of(language(), batch, schedule=schedule, checkpoint=checkpoint)
    wrong = {**batch, "input_ids": batch["input_ids"].clone()}
    wrong["input_ids"][6, 2] = 20
    _, notes = raised_by(pipe, lambda: pipe.step(wrong), IndexError)
    assert "aten.embedding in tokens" in notes and "test_any_model.py" in notes
    assert "x = self.tokens(input_ids) + self.positions(" in notes
    wrong = {**batch, "labels": batch["labels"] + 1}
    _, notes = raised_by(pipe, lambda: pipe.step(wrong), IndexError)
    assert "aten.cross_entropy_loss in the model" in notes and "loss = functional.cross_entropy(" in notes
    model = Fussy()
    x = torch.randn(6, 4)
    pipe = pipe_of(model, x, split=["last"], schedule=schedule, checkpoint=checkpoint)
    error, notes = raised_by(pipe, lambda: pipe.step(1e4 * x, loss=squares), KeyError)
    assert error.args == ("mine, forward",)
    assert "fussy in the model" in notes and "test_any_model_breaks.py" in notes and "x = fussy(x)  # this line" in notes
    error, _ = raised_by(pipe, lambda: pipe.step(x, loss=lambda output, _: 1e6 * squares(output)), KeyError)
    assert error.args == ("mine, backward",)
    assert "backward" in pipe.last_failure[0]
    pipe.zero_grad()
    pipe.step(x, loss=squares)


def test_an_error_in_the_loss_arrives_as_it_is():
    model, batch = language(), language_batch()
    for schedule in ("gpipe", "1f1b"):
        pipe = pipe_of(model, batch, schedule=schedule)
        with pytest.raises(ZeroDivisionError) as raised:
            pipe.step(batch, loss=lambda output, batch: output["logits"].sum() / 0 if 1 // 0 else None)
        assert raised.traceback[-1].path.name == "test_any_model_breaks.py"
        agree(pipe, model, batch)


class Reverses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, _owner):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient, None


class Adversary(nn.Module):
    """Its children in order compute its values, and other gradients."""

    def __init__(self, owner):
        super().__init__()
        self.first, self.last, self.owner = nn.Linear(4, 4), nn.Linear(4, 4), owner

    def forward(self, x):
        return self.last(Reverses.apply(self.first(x), self.owner))


def test_a_chain_of_other_gradients_is_refused():
    with pytest.raises(pipescope.UsageError, match="autograd.Function Reverses"):
        pipescope.layers_of(Adversary(object()), torch.randn(6, 4))
    torch.manual_seed(0)
    model, x = Adversary(None), torch.randn(6, 4)  # which a trace holds, with its backward
    pipe = pipe_of(model, x, split=["last"])
    pipe.step(x, loss=squares)
    found = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    squares(model(x)).backward()
    assert all(torch.allclose(one, each.grad) for one, each in zip(found, model.parameters()))


# ---- Copies and files ----


def saved(pipe):
    file = io.BytesIO()
    torch.save(pipe, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class Tempered(nn.Module):
    """Reads numbers and a tensor that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.temperature, self.table = 2.0, torch.linspace(0, 1, 4)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x) / self.temperature) + self.table)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pipe: pickle.loads(pickle.dumps(pipe)), saved])
def test_a_copy_watches_its_own_model(copied):
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    pipe = pipe_of(Tempered(), x, split=["last"])
    first = pipe.step(x, loss=squares)
    other = copied(pipe)
    assert other.step(x, loss=squares) == first and other.module is not pipe.module
    other.module.temperature = 1.0
    pipe.step(x, loss=squares)
    with pytest.raises(pipescope.UsageError, match="temperature has changed"):
        other.step(x, loss=squares)


def test_averaged_models():
    model, batch = language(), language_batch()
    pipe = pipe_of(model, batch, schedule="gpipe")
    plain = copy.deepcopy(model)
    averages = [torch.optim.swa_utils.AveragedModel(each, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
                for each in (pipe, model, plain)]
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (pipe, plain)]
    for _ in range(3):
        for each in optimizers:
            each.zero_grad()
        pipe.step(batch)
        plain_step(plain, batch, None, 3)
        for each in optimizers:
            each.step()
        for average, of in zip(averages, (pipe, model, plain)):
            average.update_parameters(of)
    outputs = [each.eval()(**batch)["logits"] for each in averages]
    assert all((each - outputs[2]).abs().max() < 1e-12 for each in outputs)
    assert not torch.equal(outputs[2], plain.eval()(**batch)["logits"])


def test_files_of_the_plain_model_fit_and_the_other_way():
    batch = language_batch()
    model, other = language(), Language().double()
    pipe = pipe_of(model, batch)
    assert list(pipe.state_dict()) == list(other.state_dict())
    pipe.load_state_dict(other.state_dict())
    total, _ = plain_step(other, batch, None, 3)
    assert abs(float(pipe.step(batch)) - total) < 1e-12
    other.load_state_dict(pipe.state_dict())
    wrapped = nn.ModuleDict({"inner": pipe})
    assert list(wrapped.state_dict()) == [f"inner.{name}" for name in model.state_dict()]
    wrapped.load_state_dict({f"inner.{name}": each for name, each in language().state_dict().items()})
    with pytest.raises(RuntimeError, match="nobody"):
        pipe.load_state_dict({**model.state_dict(), "nobody": torch.zeros(1)})
    with torch.no_grad():
        for each in model.parameters():
            each.data = each.data.clone() * 0.5  # as loaders do
    agree(pipe, model, batch)


def test_a_training_is_resumed_bit_for_bit():
    batch = language_batch()

    def started():
        model = language(dropout=0.2)
        return model, pipe_of(model, batch, seed=3), torch.optim.AdamW(model.parameters(), lr=1e-2)

    def train(pipe, optimizer, steps):
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            losses.append(float(pipe.step(batch)))
            optimizer.step()
        return losses

    model, pipe, optimizer = started()
    train(pipe, optimizer, 2)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": pipe.next_step}, file)
    expected = train(pipe, optimizer, 2)
    again, pipe, optimizer = started()
    file.seek(0)
    state = torch.load(file)
    again.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    pipe.next_step = state["step"]
    assert train(pipe, optimizer, 2) == expected
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), again.parameters()))


# ---- Compilation ----


def compiled_whole(model):
    return torch.compile(model, backend="aot_eager")


def compiled_in_place(model):
    model.compile(backend="aot_eager")
    return model


def compiled_part(model):
    model.blocks[1] = torch.compile(model.blocks[1], backend="aot_eager")
    return model


@pytest.mark.parametrize("compile", [compiled_whole, compiled_in_place, compiled_part])
def test_a_compiled_model_is_traced_as_the_plain_one(compile):
    batch, plain = language_batch(), language()
    model = compile(language())
    pipe = pipe_of(model, batch, split=["blocks.2"])
    total, expected = plain_step(plain, batch, None, 3)
    assert abs(float(pipe.step(batch)) - total) < 1e-12
    found = {name.replace("_orig_mod.", ""): each.grad for name, each in pipe.named_parameters()}
    assert all((found[name] - each).abs().max() < 1e-12 for name, each in expected.items())


def test_a_compiled_pipeline_runs_as_without():
    batch, model = language_batch(), language()
    pipe = pipe_of(model, batch, schedule="gpipe")
    expected = pipe(**batch)["logits"]
    compiled = torch.compile(pipe, backend="aot_eager")
    assert torch.equal(compiled(**batch)["logits"], expected)


# ---- Hooks ----


def test_forward_hooks_of_the_trace_are_in_its_layers():
    batch, model = language_batch(), language()
    handles = [
        model.blocks[1].register_forward_hook(lambda module, inputs, output: 2 * output),
        model.norm.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,)),
        model.register_forward_hook(lambda module, inputs, output: {**output, "loss": 3 * output["loss"]}),
    ]
    pipe = pipe_of(model, batch, split=["blocks.2"])
    agree(pipe, model, batch)
    handles[2].remove()
    with pytest.raises(pipescope.UsageError, match="hooks were added or removed at the model"):
        pipe.step(batch)


def test_hooks_of_parameters_get_the_steps_gradient():
    batch, model = language_batch(), language()
    pipe = pipe_of(model, batch, checkpoint="always")
    _, expected = plain_step(model, batch, None, 3)
    model.zero_grad()
    seen, after = {}, []
    for name, each in model.named_parameters():
        each.register_hook(lambda gradient, name=name: seen.setdefault(name, []).append(gradient.clone()))
        each.register_post_accumulate_grad_hook(lambda parameter: after.append(parameter))
    pipe.step(batch)
    assert {name: len(each) for name, each in seen.items()} == {name: 1 for name in expected}  # a tied one, too
    assert all((seen[name][0] - each).abs().max() < 1e-12 for name, each in expected.items())
    assert sorted(map(id, after)) == sorted(map(id, model.parameters()))


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hooks_of_backwards_are_refused(register):
    batch, model = language_batch(), language()
    getattr(model.blocks[0], register)(lambda *_: None)
    with pytest.raises(pipescope.UsageError, match="module blocks.0 has a hook of its backward"):
        pipe_of(model, batch)


def test_hooks_of_all_modules_are_those_of_the_trace():
    torch.manual_seed(0)
    every = nn.modules.module
    model, x = Activated(), torch.randn(6, 4)
    double = lambda module, inputs, output: 2 * output if isinstance(module, nn.Linear) else None  # noqa: E731
    first = every.register_module_forward_hook(double)
    try:
        pipe = pipe_of(model, x, split=["last"])
        _, expected = plain_step(model, {"x": x}, squares, 3)
        model.zero_grad()
        pipe.step(x, loss=squares)
        assert worst(model, expected) < 1e-6
        with torch.utils.module_tracker.ModuleTracker():  # which only watches
            pipe.step(x, loss=squares)
    finally:
        first.remove()
    with pytest.raises(pipescope.UsageError, match="hooks of all modules were added or removed"):
        pipe.step(x, loss=squares)
    second = every.register_module_full_backward_hook(lambda *_: None)
    try:
        with pytest.raises(pipescope.UsageError, match="all modules have a hook of their backwards"):
            pipe_of(model, x, split=["last"])
    finally:
        second.remove()


# ---- Parameters and modes ----


def test_groups_of_parameters_have_their_own_rates():
    batch, model = language_batch(), language()
    plain = copy.deepcopy(model)
    pipe = pipe_of(model, batch)
    optimizers = []
    for each in (pipe, plain):
        decay = [p for p in each.parameters() if p.dim() > 1]
        rest = [p for p in each.parameters() if p.dim() < 2]
        optimizers.append(torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "lr": 1e-3}], lr=1e-2, eps=1e-6))
    for _ in range(3):
        pipe.step(batch)
        plain_step(plain, batch, None, 3)
        for each in optimizers:
            each.step()
            each.zero_grad()
    assert max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), plain.parameters())) < 1e-12


@pytest.mark.parametrize("checkpoint", ["never", "always"])
def test_parameters_are_frozen_and_thawed_midway(checkpoint):
    batch, model = language_batch(), language()
    for part in (model.tokens, model.positions, model.blocks[0]):
        part.requires_grad_(False)
    pipe = pipe_of(model, batch, split=["blocks.1", "blocks.2"], devices=["cpu"] * 3, checkpoint=checkpoint)
    for frozen in (["tokens", "positions", "blocks.0"], [], ["blocks.1"], ["tokens"], ["norm", "blocks.2"], []):
        for name, each in model.named_parameters():
            each.requires_grad_(not any(name.startswith(f"{part}.") for part in frozen))
        model.zero_grad()
        total, _ = plain_loss(model, batch)
        expected = {name: None if each.grad is None else each.grad.clone() for name, each in model.named_parameters()}
        model.zero_grad()
        assert abs(float(pipe.step(batch)) - total) < 1e-12
        for name, each in model.named_parameters():
            assert (each.grad is None) == (expected[name] is None), name
            assert each.grad is None or (each.grad - expected[name]).abs().max() < 1e-12, name


def plain_loss(model, batch, chunks=3):
    rows = len(batch["input_ids"])
    total, first = 0.0, 0
    for size in [rows // chunks + (k < rows % chunks) for k in range(chunks)]:
        output = model(**{name: each[first:first + size] for name, each in batch.items()})
        value = output["loss"] * size / rows
        value.backward()
        total, first = total + float(value.detach()), first + size
    return total, None


def test_modes_switch_from_the_model_and_from_the_pipeline():
    batch, model = language_batch(), language(dropout=0.5)
    pipe = pipe_of(model, batch, schedule="gpipe", chunks=1)
    for switch in (model.eval, lambda: pipe.train(), pipe.eval, lambda: model.train()):
        switch()
        one, other = (pipe(**batch)["logits"] for _ in range(2))
        is_eval = torch.equal(one, model(**batch)["logits"])
        assert is_eval != model.training and pipe.training == model.training


def test_gradients_accumulate():
    batch, model = language_batch(), language()
    pipe = pipe_of(model, batch)
    expected = {name: 0.0 for name, _ in model.named_parameters()}
    parts = [{name: each[first:first + 3] for name, each in batch.items()} for first in (0, 2, 4)]
    for part in parts:
        for name, each in plain_step(model, part, None, 3)[1].items():
            expected[name] = expected[name] + each
    model.zero_grad(set_to_none=False)
    for part in parts:
        pipe.step(part)
    assert worst(model, expected) < 1e-12


def test_two_pipelines_of_one_model():
    batch, model = language_batch(), language()
    one, other = pipe_of(model, batch), pipe_of(model, batch, schedule="zero-bubble-h1", split=["blocks.2"])
    for pipe in (one, other, one):
        agree(pipe, model, batch)


def test_a_forward_and_its_backward():
    batch, model = language_batch(), language()
    pipe = pipe_of(model, batch, schedule="gpipe")
    total, expected = plain_step(model, batch, None, 3)
    model.zero_grad()
    outputs = [pipe(**batch) for _ in range(2)]
    for output in outputs:
        (output["loss"] / 2).backward()
    assert abs(float(outputs[0]["loss"].detach()) - total) < 1e-12 and worst(model, expected) < 1e-12
    with torch.no_grad():
        assert not pipe(**batch)["loss"].requires_grad
    with torch.inference_mode():
        assert torch.equal(pipe(**batch)["logits"], outputs[0]["logits"])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1"])
def test_any_number_of_samples(schedule):
    model = language()
    pipe = pipe_of(model, language_batch(3), schedule=schedule, chunks=4)
    for rows in range(1, 10):
        agree(pipe, model, language_batch(rows), chunks=min(4, rows))


# ---- What changes after the trace ----


class Activated(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.activation, self.norm, self.last = nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.norm(self.activation(self.first(x))))


@pytest.mark.parametrize("change, text", [
    (lambda model: setattr(model, "activation", nn.ReLU()), "module activation is another one"),
    (lambda model: setattr(model, "norm", nn.LayerNorm(4, eps=0.1)), "module norm is another one"),
    (lambda model: setattr(model.first, "forward", lambda x: 2 * x), "module first has another class or forward"),
    (lambda model: nn.utils.parametrize.register_parametrization(model.last, "weight", nn.Tanh()), "module last has another class"),
    (lambda model: setattr(model.activation, "inner", nn.ReLU()), "module activation.inner was added"),
    (lambda model: model.register_parameter("more", nn.Parameter(torch.ones(1))), "were added or removed"),
    (lambda model: setattr(model.last, "bias", None), "last.bias|added or removed"),
    (lambda model: model.double(), "the parameter first.weight is torch.float64 and was torch.float32"),
])
def test_a_model_that_is_another_one_now_is_refused(change, text):
    model, x = Activated(), torch.randn(6, 4)
    pipe = pipe_of(model, x, split=["last"])
    pipe.step(x, loss=squares)
    change(model)
    with pytest.raises(pipescope.UsageError, match=text):
        pipe.step(x, loss=squares)


def test_a_pipeline_is_moved_to_where_it_is():
    model, batch = language(), language_batch()
    pipe = pipe_of(model, batch)
    for moved in (pipe.cpu(), pipe.to("cpu"), pipe.to(torch.device("cpu"), torch.float64), pipe.double()):
        assert moved is pipe
    agree(pipe, model, batch)
    with pytest.raises(TypeError, match="none of its lanes has"):
        pipe.to("meta")


# ---- Precision ----


@pytest.mark.parametrize("inside", [False, True])
def test_autocast(inside):
    torch.manual_seed(0)
    batch, model = language_batch(), Language()
    with torch.autocast("cpu", torch.bfloat16, enabled=inside):
        pipe = pipe_of(model, batch)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        total, expected = plain_step(model, batch, None, 3)
        model.zero_grad()
        loss = float(pipe.step(batch))
    assert abs(loss - total) < 1e-6 and worst(model, expected) < 1e-6
    model.zero_grad()  # and without, since its trace is the same
    total, expected = plain_step(model, batch, None, 3)
    model.zero_grad()
    loss = float(pipe.step(batch))
    assert abs(loss - total) < 1e-6 and worst(model, expected) < 1e-6


def test_scaled_losses_and_clipped_gradients():
    torch.manual_seed(0)
    batch, model = language_batch(), Language()
    plain = copy.deepcopy(model)
    pipe = pipe_of(model, batch)
    scaler = pipescope.GradScaler(pipe, init_scale=1024.0)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, plain)]
    for _ in range(3):
        for each in optimizers:
            each.zero_grad()
        loss = pipe.step(batch, loss=scaler.scale(lambda output, batch: output["loss"]))
        total, _ = plain_step(plain, batch, None, 3)
        assert abs(float(loss) - total) < 1e-6
        scaler.unscale_(optimizers[0])
        norms = [pipescope.clip_grad_norm_(pipe, 0.1), nn.utils.clip_grad_norm_(plain.parameters(), 0.1)]
        assert abs(float(norms[0]) - float(norms[1])) < 1e-6
        scaler.step(optimizers[0])
        scaler.update()
        optimizers[1].step()
    assert max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), plain.parameters())) < 1e-6


# ---- What else runs layers ----


def test_staggered_updates_of_a_parameter_of_several_lanes_are_refused():
    batch = language_batch()
    pipe = pipe_of(language(), batch, chunks=2)

    def update(lane):
        with torch.no_grad():
            for each in pipe.lane_parameters(lane):
                each.sub_(each.grad)
                each.grad = None

    with pytest.raises(pipescope.UsageError, match="lanes share parameters"):
        pipe.train_staggered([batch] * 3, None, update)


def test_staggered_updates_train_as_steps_do():
    batch = language_batch()
    parts = [{name: each[first:first + 4] for name, each in batch.items()} for first in range(4)]
    trained = []
    for staggered in (False, True):
        model = language()
        model.head.weight = nn.Parameter(model.head.weight.detach().clone())  # not tied
        pipe = pipe_of(model, batch, chunks=2)
        optimizers = [torch.optim.AdamW(pipe.lane_parameters(lane), lr=1e-2) for lane in range(2)]
        assert sum(len(each.param_groups[0]["params"]) for each in optimizers) == len(list(model.parameters()))
        losses = []

        def update(lane):
            optimizers[lane].step()
            optimizers[lane].zero_grad()

        if staggered:
            pipe.train_staggered(parts, None, update, lambda loss: losses.append(float(loss)))
        else:
            for part in parts:
                losses.append(float(pipe.step(part)))
                for lane in range(2):
                    update(lane)
        trained.append((losses, [each.detach() for each in model.parameters()]))
    assert trained[0][0] == trained[1][0]
    assert all(torch.equal(one, other) for one, other in zip(trained[0][1], trained[1][1]))


def test_a_recording_is_compared_with_a_profile(tmp_path):
    batch, model = language_batch(), language()
    layers = pipescope.layers_of(model, batch)
    profile = pipescope.profile(layers, batch, samples=[2, 3], time_limit_s=2.0)
    pipe = pipescope.GPipe(layers, [len(layers) - 2, 2], devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    with pipe.record(tmp_path / "run.sqlite", profile=profile):
        losses = [float(pipe.step(batch)) for _ in range(3)]
    trace = pipescope.Trace.open(tmp_path / "run.sqlite")
    assert [each.training_loss for each in trace.steps] == pytest.approx(losses)
    assert trace.compare().step_error is not None


def test_exports_of_a_pipeline_are_refused():
    x = torch.randn(6, 4)
    pipe = pipe_of(Activated(), x, split=["last"], schedule="gpipe")
    with pytest.raises(Exception, match="called by torch.export or torch.jit.trace"):
        torch.export.export(pipe, (x,), strict=False)
    with pytest.raises(Exception, match="called by torch.export or torch.jit.trace"):
        torch.jit.trace(pipe, (x,))
    with pytest.raises(pipescope.UsageError, match="transform of torch.func"), torch.no_grad():
        torch.func.vmap(lambda x: pipe(x))(torch.randn(2, 6, 4))


def test_parameters_of_another_call():
    x = torch.randn(6, 4)
    model = Activated()
    pipe = pipe_of(model, x, split=["last"], schedule="gpipe", checkpoint="never")
    others = {name: each.detach() * 0.5 for name, each in model.named_parameters()}
    expected = torch.cat([torch.func.functional_call(model, others, (part,)) for part in x.split(2)])
    assert torch.allclose(torch.func.functional_call(pipe, others, (x,)), expected, rtol=0, atol=1e-6)
    assert torch.allclose(pipe(x), torch.cat([model(part) for part in x.split(2)]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("normed", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_parametrized_weights(normed):
    """A spectral norm changes its buffers in place, and assigns them to themselves."""
    torch.manual_seed(0)
    model, x = Activated().double(), torch.randn(6, 4).double()
    for part in (model.first, model.last):
        normed(part)
    plain = copy.deepcopy(model)
    pipe = pipe_of(model, x, split=["last"], schedule="1f1b")
    for _ in range(2):
        _, expected = plain_step(plain, {"x": x}, squares, 3)
        model.zero_grad()
        pipe.step(x, loss=squares)
        assert worst(model, expected) < 1e-12
    assert all((one - other).abs().max() < 1e-12 for one, other in zip(model.buffers(), plain.buffers()))


@pytest.mark.parametrize("make, batch, loss", [
    (Repeated, {"x": torch.randn(6, 5, 6)}, squares),
    (UNet, {"image": torch.randn(6, 3, 8, 8), "context": torch.randn(6, 4)}, squares),
])
def test_a_step_within_another_context(make, batch, loss):
    """Built without gradients, in inference mode and under another default dtype, trained outside."""
    batch = {name: each.double() for name, each in batch.items()}
    torch.manual_seed(0)
    model = make().double()
    state = copy.deepcopy(model.state_dict())
    _, expected = plain_step(model, batch, loss, 3)
    for context in (torch.no_grad(), torch.inference_mode()):
        model.load_state_dict(state)
        with context:
            layers = pipescope.layers_of(model, batch)
        pipe = pipescope.GPipe(layers, [len(layers) - 1, 1], devices=["cpu"] * 2, chunks=3, schedule="1f1b")
        model.zero_grad()
        pipe.step(batch, loss=loss)
        assert worst(model, expected) < 1e-12
