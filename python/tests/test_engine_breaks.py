"""Forks, threads, exits, signals, random numbers inside torch.utils.checkpoint, compilation: in processes of their own.

What threatens Python modules that run on the engine's threads, and the tests of it:

1. silently wrong gradients of torch.utils.checkpoint: test_torch_checkpoint_with_dropout_inside_a_layer
2. forks: test_a_forked_child_.., test_a_fork_frees_.., test_forks_while_.., test_a_data_loader_with_workers
3. the process's end: test_the_process_ends_.. (two), test_models_live_until_the_interpreter_ends
4. Ctrl-C: test_ctrl_c_ends_a_call_within_a_task, test_a_signal_handler_runs_during_a_step; test_core_trouble.py
5. lanes that take turns at Python's lock: benchmarks/peers/compare_python.py measures it, docs/python-training.md tells it
6. torch.compile: test_compiled_layers_in_models_that_come_and_go, and those after it
7. hooks: test_module_hooks_.. and test_parameter_hooks_.. of test_engine_module.py
8. tensors, tuples, lists: test_tensors_tuples_and_lists_arrive_as_they_left of test_engine_module.py, and those after it
9. thread states: test_a_model_is_freed_by_a_thread_that_holds_the_gil; test_models_come_and_go_.. of test_engine_module.py
10. context variables: test_layers_know_their_micro_batch_and_their_callers_context; graphs of graphs: test_what_is_refused_says_so,
    both of test_engine_module.py
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import textwrap
import time

import pipescope
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

HEAD = """
import os, signal, sys, threading, time
import torch
from torch import nn
import pipescope
torch.manual_seed(0)
torch.set_num_threads(1)
def mlp():
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
def pipeline(**options):
    return pipescope.GPipe(mlp(), [1, 2], **{"devices": ["cpu", "cpu"], "chunks": 4, **options})
x = torch.randn(8, 6)
mse = nn.functional.mse_loss
"""


def start(code: str, head: str = HEAD) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(code)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(code: str, head: str = HEAD, timeout: float = 300) -> subprocess.CompletedProcess:
    process = start(code, head)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it hangs\n{out}\n{err}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def check(code: str, expected: str, code_of_exit: int = 0, head: str = HEAD) -> None:
    done = run(code, head)
    assert done.returncode == code_of_exit, done.stderr
    assert expected in done.stdout, done.stdout + done.stderr


# ---- Random numbers ----


class Checkpointed(nn.Module):
    """Recomputes its dropout in its own backward."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.use_reentrant = use_reentrant
        self.masks: list[torch.Tensor] = []

    def part(self, x):
        mask = nn.functional.dropout(torch.ones_like(x), 0.5)
        self.masks.append(mask.detach())
        return self.linear(x) * mask

    def forward(self, x):
        return torch_checkpoint(self.part, x, use_reentrant=self.use_reentrant)


class CountedCheckpoint(nn.Module):
    """Counts the calls of its body, in a buffer as well, as a batch norm counts its batches."""

    def __init__(self, **options):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh())
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.options = options

    def counted(self, x):
        self.count += 1
        return self.body(x)

    def forward(self, x):
        return torch_checkpoint(self.counted, x, use_reentrant=False, **self.options)


def selective():
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])


@pytest.mark.parametrize("options", [{}, {"context_fn": selective}], ids=["plain", "selective"])
@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1"])
def test_torch_checkpoint_recomputes_once_in_a_backward(schedule, mode, options):
    layers = nn.Sequential(CountedCheckpoint(**options), nn.Linear(6, 6), CountedCheckpoint(**options)).double()
    plain = copy.deepcopy(layers)
    x = torch.randn(9, 6, dtype=torch.double)
    for part in x.chunk(3):
        (plain(part).square().mean() / 3).backward()
    model = pipescope.GPipe(layers, balance=[1, 2], devices=["cpu", "cpu"], chunks=3, schedule=schedule, checkpoint=mode)
    model.step(x, torch.zeros(9, 6, dtype=torch.double), nn.MSELoss())
    for ours, theirs in zip(layers.parameters(), plain.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert [layers[k].count.item() for k in (0, 2)] == [plain[k].count.item() for k in (0, 2)] == [6, 6]


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("schedule", ["gpipe", "zero-bubble-h1"])
def test_torch_checkpoint_with_dropout_inside_a_layer(use_reentrant, driver, mode, schedule):
    if driver == "autograd" and schedule != "gpipe":
        pytest.skip("the driver autograd runs gpipe only")
    layers = nn.Sequential(nn.Linear(6, 6), Checkpointed(use_reentrant), nn.Tanh(), Checkpointed(use_reentrant)).double()
    model = pipescope.GPipe(layers, [2, 2], devices=["cpu"] * 2, chunks=2, checkpoint=mode, driver=driver, schedule=schedule)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    y = torch.randn(4, 6, dtype=torch.float64)
    model.step(x, y, nn.functional.mse_loss)
    for layer in (layers[1], layers[3]):
        masks = {m.numpy().tobytes() for m in layer.masks}
        assert len(masks) == 2, "the second computation draws other numbers"  # one mask for each micro-batch
    # Against the plain model with the same masks, micro-batch by micro-batch.
    firsts = {k: _masks_by_micro_batch(layers[k]) for k in (1, 3)}
    found = {name: p.grad.clone() for name, p in layers.named_parameters()}
    best = None
    for order in ((0, 1), (1, 0)):  # which mask belongs to which micro-batch of layer 3 depends on the lanes
        for other in ((0, 1), (1, 0)):
            layers.zero_grad()
            for i, part in enumerate(x.detach().split(2)):
                hidden = layers[1].linear(layers[0](part)) * firsts[1][order[i]]
                output = layers[3].linear(torch.tanh(hidden)) * firsts[3][other[i]]
                (nn.functional.mse_loss(output, y.split(2)[i]) / 2).backward()
            worst = max((found[name] - p.grad).abs().max().item() for name, p in layers.named_parameters())
            best = worst if best is None else min(best, worst)
    assert best <= 1e-12


def _masks_by_micro_batch(layer):
    masks = []
    for mask in layer.masks:
        if not any(torch.equal(mask, each) for each in masks):
            masks.append(mask)
    return masks


def test_dropout_does_not_depend_on_the_balance():
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6), nn.Dropout(0.3)).double()
    x = torch.randn(8, 6, dtype=torch.float64)
    results = []
    for balance, mode in (([4], "never"), ([1, 3], "always"), ([2, 1, 1], "except_last")):
        model = pipescope.GPipe(layers, balance, devices=["cpu"] * len(balance), chunks=4, checkpoint=mode, seed=5)
        layers.zero_grad()
        model(x).sum().backward()
        results.append([p.grad.clone() for p in layers.parameters()])
    for other in results[1:]:
        assert all((one - two).abs().max() <= 1e-12 for one, two in zip(results[0], other))


def test_the_default_generator_works_outside_of_lanes():
    torch.manual_seed(3)
    first = torch.rand(3)
    state = torch.get_rng_state()
    second = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(second, torch.rand(3))
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(3, generator=torch.default_generator))


# ---- Forks ----


def test_many_lanes_start_at_once_in_forked_children():
    check("""
        layers = [nn.Linear(6, 6) for _ in range(8)]
        def train():
            model = pipescope.GPipe(nn.Sequential(*layers), [1] * 8, devices=["cpu"] * 8, chunks=4)
            model.step(x, x, mse)
        train()
        ends = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                train()
                os._exit(7)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("children", set(ends))
    """, "children {7}")


def test_a_forked_child_may_free_models_and_not_run_them():
    check("""
        model = pipeline()
        model(x).sum().backward()
        output = model(x)
        child = os.fork()
        if child == 0:
            try:
                model(x)
            except RuntimeError as error:
                assert "forked" in str(error), error
            del model, output
            own = pipeline()
            own.step(x, x, mse)
            sys.exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        model(x).sum().backward()
        print("child", status)
    """, "child 7")


def test_a_forked_child_runs_a_model_after_its_parent_has_profiled():
    check("""
        pipescope.profile(mlp(), x, samples=[2], time_limit_s=0.3)  # on threads that have ended, and held Python's lock
        codes = set()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                for _ in range(2):
                    pipeline().step(x, x, mse)
                os._exit(7)
            codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        pipeline().step(x, x, mse)
        print("children", codes)
    """, "children {7}")


def test_a_fork_frees_the_models_of_other_threads():
    check("""
        local = threading.local()
        ready, done = threading.Event(), threading.Event()
        def work():
            local.model = pipeline()
            local.model(x)
            ready.set()
            done.wait()
        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        child = os.fork()   # Python frees the other threads' locals in the child
        if child == 0:
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        done.set()
        thread.join()
        print("child", status)
    """, "child 7")


@pytest.mark.parametrize("child_steps", [False, True])
def test_forks_while_another_thread_trains(child_steps):
    """A child that leaves the model alone ends as it likes; one that trains it is refused."""
    check(f"""
        model = pipeline(checkpoint="never")
        def work():
            while not stop:
                model.step(x, x, mse)
        stop = False
        thread = threading.Thread(target=work)
        thread.start()
        codes = []
        for k in range(5):
            child = os.fork()
            if child == 0:
                try:
                    if {child_steps}:
                        model.step(x, x, mse)
                    os._exit(8 if {child_steps} else 7)
                except RuntimeError as error:
                    os._exit(7 if "forked" in str(error) else 8)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop = True
        thread.join()
        print(codes)
    """, "[7, 7, 7, 7, 7]")


def test_a_data_loader_with_workers():
    check("""
        model = pipeline()
        data = torch.utils.data.TensorDataset(torch.randn(32, 6))
        for epoch in range(2):
            for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2):
                model.step(batch, batch, mse)
        print("steps", model.next_step)
    """, "steps 8")


# ---- The end of the process ----


@pytest.mark.parametrize("call", ["model.step(x, x, mse)", "model(x).sum().backward()", "model(x)"])
def test_the_process_ends_while_daemon_threads_train(call):
    for wait in (0.0, 0.02, 0.1):
        check(f"""
            def work():
                model = pipeline(checkpoint="always")
                while True:
                    {call}
                    began.set()
            began = threading.Event()
            for _ in range(2):
                threading.Thread(target=work, daemon=True).start()
            began.wait()
            time.sleep({wait})
            print("ends", flush=True)
            sys.exit(5)
        """, "ends", 5)


def test_the_process_ends_while_a_layer_never_does():
    begun = time.monotonic()
    done = run("""
        class Stuck(nn.Module):
            def forward(self, x):
                began.set()
                time.sleep(1000)
        began = threading.Event()
        model = pipescope.GPipe([Stuck()], [1], devices=["cpu"])
        threading.Thread(target=lambda: model(x), daemon=True).start()
        began.wait()
        print("ends", flush=True)
    """)
    assert "ends" in done.stdout and done.returncode == 0, done.stderr
    assert "did not end within" in done.stderr
    assert time.monotonic() - begun < 50


def test_models_live_until_the_interpreter_ends():
    check("""
        model = pipeline()
        output = model(x)
        cycle = [model]; cycle.append(cycle)
        sys.modules["keeps"] = model
        print("ends")
    """, "ends")


def test_a_step_after_the_end_has_begun_is_refused():
    check("""
        class Late:
            def __del__(self):
                try:
                    model.step(x, x, mse)
                except RuntimeError as error:
                    os.write(1, str(error).encode())
        model = pipeline()
        model.step(x, x, mse)
        late = Late()
        sys.modules["keeps"] = late
    """, "end of the process")


# ---- Signals ----


def interrupt(code: str, head: str = HEAD) -> subprocess.CompletedProcess:
    process = start(code, head)
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    except BaseException:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("call", ["model.step(x, x, mse)", "model(x).sum().backward()", "model(x)"])
@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
def test_ctrl_c_ends_a_call_within_a_task(call, driver):
    done = interrupt(f"""
        class Slow(nn.Module):
            def forward(self, x):
                time.sleep(0.05)
                count[0] += 1
                return x * 1
        count = [0]
        model = pipescope.GPipe([nn.Linear(6, 6), Slow(), Slow()], [2, 1], devices=["cpu"] * 2, chunks=400,
                                driver="{driver}", host_cores=2)
        x = torch.randn(400, 6)
        print("ready", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", count[0] < 100)
        x = x[:4]
        model.zero_grad()
        model.step(x, x, mse)
        print("usable")
    """)
    assert "interrupted True" in done.stdout and "usable" in done.stdout, done.stdout + done.stderr


def test_a_signal_handler_runs_during_a_step():
    done = interrupt("""
        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        class Slow(nn.Module):
            def forward(self, x):
                time.sleep(0.02)
                return x * 1
        model = pipescope.GPipe([nn.Linear(6, 6), Slow()], [1, 1], devices=["cpu"] * 2, chunks=60)
        x = torch.randn(60, 6)
        print("ready", flush=True)
        model.step(x, x, mse)
        print("done")
    """)
    assert done.stdout.split() == ["handled", "done"], done.stdout + done.stderr


# ---- Compilation ----


def test_compiled_layers_in_models_that_come_and_go():
    check("""
        def compiled():
            return torch.compile(nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double(), backend="aot_eager")
        x = torch.randn(8, 6, dtype=torch.float64)
        for k in range(3):
            torch._dynamo.reset()
            layers = [compiled(), compiled()]
            model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=2, checkpoint=["never", "always"][k % 2])
            model.step(x, x, mse)
            plain = nn.Sequential(*[layer._orig_mod for layer in layers])
            found = [p.grad.clone() for p in plain.parameters()]
            plain.zero_grad()
            mse(plain(x), x).backward()
            assert all((one - p.grad).abs().max() < 1e-12 for one, p in zip(found, plain.parameters()))
            del model, layers, plain
        print("compiled")
    """, "compiled")


def test_a_lane_calls_a_compiled_layer_while_another_one_compiles():
    check("""
        from torch.fx.experimental.proxy_tensor import make_fx
        traces, called = threading.Event(), threading.Event()
        def traced(x):
            traces.set()
            assert called.wait(30), "no lane called a compiled layer meanwhile"
            return x * 2
        class Tracing(nn.Module):
            def forward(self, x):
                if pipescope.current_micro_batch() == 1:
                    make_fx(traced)(torch.ones(1))
                return x * 1
        class Compiled(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = torch.compile(nn.Linear(6, 6), backend="eager")
            def forward(self, x):
                if pipescope.current_micro_batch() == 0:
                    assert traces.wait(30)
                y = self.part(x)
                called.set()
                return y
        layers = [Tracing(), Compiled()]
        layers[1](x)
        called.clear()
        model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=2, checkpoint="never")
        model.step(x, x, mse)
        print("called")
    """, "called")


def test_a_compiled_layer_that_is_itself_traced_is_refused_as_without_lanes():
    check("""
        model = pipeline()
        compiled = torch.compile(nn.Linear(6, 6), backend="eager")
        try:
            torch.fx.symbolic_trace(lambda x: compiled.forward(x))
        except RuntimeError as error:
            print(error)
    """, "using FX to symbolically trace")


# ---- Thread states ----


def test_a_model_is_freed_by_a_thread_that_holds_the_gil():
    check("""
        import gc
        def cycle():
            model = pipeline()
            output = model(x)
            holder = [model, output]; holder.append(holder)
        for _ in range(20):
            cycle()
        gc.collect()
        threads = [threading.Thread(target=cycle) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        gc.collect()
        print("freed")
    """, "freed")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux only")
def test_a_model_inside_a_layer_of_another():
    check("""
        inner = pipeline()
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner
            def forward(self, x):
                return self.inner(x)
        model = pipescope.GPipe([nn.Linear(6, 6), Outer()], [1, 1], devices=["cpu"] * 2, chunks=2, checkpoint="never")
        model.step(x, x, mse)
        print(all(p.grad is not None for p in inner.parameters()))
    """, "True")
