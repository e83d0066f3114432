"""The commands for a model that is a function in Python, as a user types them, in a folder of the user's."""

import importlib.util
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from pipescope import _commands  # noqa: E402

PACKAGE = pathlib.Path(pipescope.__file__).parents[1]

LANGUAGE = """
import torch
from torch import nn
from torch.nn import functional as F


class Language(nn.Module):
    '''A tied weight, a keyword, a long skip and a mask.'''

    def __init__(self, width=16, vocabulary=24):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, batch_first=True) for _ in range(3))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids, *, scale):
        length = input_ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).triu(1)
        first = x = self.tokens(input_ids) * scale[:, None, None]
        for block in self.blocks:
            x = block(x, mask)
        return {"logits": self.head(x + first)}


def make():
    return Language()


def make_batch(samples):
    ids = torch.randint(24, (samples, 8))
    return {"input_ids": ids, "scale": torch.rand(samples) + 0.5, "labels": ids.roll(-1, 1)}


def loss(output, batch):
    return F.cross_entropy(output["logits"].flatten(0, 1), batch["labels"].flatten())
"""


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPESCOPE_")}
    return {**kept, "PYTHONPATH": str(PACKAGE), "PIPESCOPE_CUDA": "0", **more}


def pipescope_command(folder, *words, program=None, **more):
    command = [program] if program else [sys.executable, "-m", "pipescope"]
    return subprocess.run([*command, *words], cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=240,
                          check=False)


def output_of(folder, *words, **more):
    result = pipescope_command(folder, *words, **more)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Here:
    """Runs commands in this process, which has loaded torch, and not as a user starts them."""

    def __init__(self, folder, monkeypatch, capfd):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(_commands, "_loaded", {})
        self.folder, self._capfd = folder, capfd

    def result(self, *words):
        _commands._loaded.clear()
        self._capfd.readouterr()
        code = _commands.run(words)
        out, err = self._capfd.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    def json(self, *words):
        result = self.result(*words, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def here(tmp_path, monkeypatch, capfd):
    threads = torch.get_num_threads()
    yield Here(tmp_path, monkeypatch, capfd)
    torch.set_num_threads(threads)


def write(folder, text, name="model.py"):
    (folder / name).write_text(textwrap.dedent(text))


@pytest.fixture
def language(tmp_path):
    write(tmp_path, LANGUAGE)
    return tmp_path


def plain_losses(folder, steps, batch, rate, seed=0, optimizer_type=torch.optim.SGD):
    """Of the model of the file, trained without a pipeline."""
    spec = importlib.util.spec_from_file_location("the_model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    model = module.make()
    optimizer = optimizer_type(model.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        torch.manual_seed(seed + step)
        given = module.make_batch(batch)
        loss = module.loss(model(input_ids=given["input_ids"], scale=given["scale"]), given)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- From a profile to a comparison ----


def test_profile_plan_run_and_compare(language):
    text = output_of(language, "profile", "model.py:make", "-o", "p.json", "--micro-batch-sizes", "2,4", "--time-limit", "3s")
    assert text.startswith("model.py:make on cpu, float32, 2 lanes busy")
    profile = json.loads((language / "p.json").read_text())
    assert profile["model"] == "model.py:make"
    assert sum(layer["parameter_bytes"] for layer in profile["layers"]) == 4 * sum(
        each.numel() for each in loaded(language).make().parameters()
    )
    layers = json.loads(output_of(language, "models", "model.py:make", "--json"))["models"][0]["layers"]
    assert len(profile["layers"]) == layers
    plan = json.loads(output_of(language, "plan", "p.json", "--batch", "8", "--partitions", "2", "--chunks", "4",
                                "--schedule", "1f1b", "--json"))
    best = plan["candidates"][plan["best"]]

    balance = ",".join(map(str, best["balance"]))
    run = json.loads(output_of(
        language, "run", "model.py:make", "--balance", balance, "-m", "4", "--batch", "8", "--schedule", "1f1b", "--steps", "4",
        "--optimizer", "sgd", "--learning-rate", "0.05", "--trace", "run.sqlite", "--profile", "p.json", "--json",
    ))
    losses = [step["loss"] for step in run["steps"]]
    assert losses == pytest.approx(plain_losses(language, 4, 8, 0.05), rel=1e-5)
    assert run["optimizer"] == "sgd" and run["trace"] == "run.sqlite"
    assert all(lane["peak_bytes"] > 0 for lane in run["lanes"])

    comparison = json.loads(output_of(language, "compare", "run.sqlite", "--json"))
    assert comparison["step_error"] is not None
    trace = pipescope.Trace.open(language / "run.sqlite")
    assert trace.options["balance"] == best["balance"] and trace.profile.model == "model.py:make"
    output_of(language, "advise", "run.sqlite")


def test_tied_weights_over_lanes_are_one_parameter(here, language):
    """Plain SGD would forgive two parameters that share memory."""
    layers = here.json("models", "model.py")["models"][0]
    assert layers["parameters"] == sum(each.numel() for each in loaded(language).make().parameters())
    count = layers["layers"]
    for balance in (f"{count - 2},2", str(count)):
        run = here.json("run", "model.py", "--balance", balance, "-m", "4", "--batch", "8", "--schedule", "1f1b", "--steps", "5",
                        "--optimizer", "adamw", "--learning-rate", "0.01")
        expected = plain_losses(language, 5, 8, 0.01, optimizer_type=torch.optim.AdamW)
        assert [step["loss"] for step in run["steps"]] == pytest.approx(expected, rel=1e-5)


def loaded(folder):
    spec = importlib.util.spec_from_file_location("the_model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("schedule", ["gpipe", "zero-bubble-h1"])
def test_a_model_with_its_own_loss_trains_as_alone(here, tmp_path, schedule):
    write(tmp_path, OWN_LOSS)
    layers = here.json("models", "model.py")["models"][0]["layers"]
    run = here.json(
        "run", "model.py", "--balance", f"{layers - 1},1", "-m", "3", "--batch", "7", "--schedule", schedule, "--steps", "3",
        "--optimizer", "sgd", "--seed", "5",
    )
    module = loaded(tmp_path)
    torch.manual_seed(5)
    model = module.make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(3):
        torch.manual_seed(5 + step)
        loss = model(*module.make_batch(7))[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert [step["loss"] for step in run["steps"]] == pytest.approx(losses, rel=1e-5)


OWN_LOSS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x, y):
        output = self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return ((output - y) ** 2).mean(), output


def make():
    return Model()


def make_batch(samples):
    return torch.randn(samples, 4), torch.randn(samples, 2)
"""


def test_layers_in_a_sequential_and_a_sample_instead_of_batches(here, tmp_path):
    write(tmp_path, """
        import torch
        from torch import nn

        def make():
            return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), {"input": torch.randn(6, 4), "y": torch.randn(6, 2)}

        def loss(output, batch):
            return nn.functional.mse_loss(output, batch["y"])
        """)
    words = ["model.py:make", "--balance", "1,2", "-m", "2", "--batch", "8", "--steps", "3", "--optimizer", "sgd"]
    run = here.json("run", *words, "--trace", "run.sqlite")
    losses = [step["loss"] for step in run["steps"]]
    assert losses == sorted(losses, reverse=True)  # the data is the sample's, in each step
    assert len(pipescope.Trace.open(tmp_path / "run.sqlite").profile) == 3


def test_a_module_and_batches_from_another_file(here, language):
    (language / "models").mkdir()
    (language / "model.py").rename(language / "models" / "language.py")
    write(language, """
        import torch

        def small(samples):
            ids = torch.zeros(samples, 4, dtype=torch.int64)
            return {"input_ids": ids, "scale": torch.ones(samples), "labels": ids}
        """, "data.py")
    layers = here.json("models", "models.language:make")["models"][0]["layers"]
    words = ["run", "models.language:make", "--balance", f"2,{layers - 2}", "-m", "2", "--batch", "4", "--steps", "2"]
    own, other = here.json(*words), here.json(*words, "--batch-from", "data.py:small")
    assert own["steps"][0]["loss"] != other["steps"][0]["loss"]
    assert own["optimizer"] == "adam"  # the input is token numbers


def test_an_estimate_needs_no_memory(here, language):
    text = (language / "model.py").read_text().replace("return Language()", "return Language(65536, 100_000)")
    (language / "model.py").write_text(text)
    profile = here.json("profile", "model.py:make", "--device", "meta", "--device-type", "H100", "--dtype", "bfloat16")
    assert profile["estimated"] and profile["dtype"] == "bfloat16"
    assert sum(layer["parameter_bytes"] for layer in profile["layers"]) > 2**36


def test_padding_and_an_optimizer_of_the_user(here, tmp_path):
    write(tmp_path, PADDED)
    layers = here.json("models", "model.py:make")["models"][0]["layers"]
    words = ["run", "model.py:make", "--balance", f"1,{layers - 1}", "-m", "4", "--batch", "8", "--steps", "3"]
    module = loaded(tmp_path)
    torch.manual_seed(0)
    model = module.make()
    optimizer = module.optimizer(list(model.parameters()))
    losses = []
    for step in range(3):
        torch.manual_seed(step)
        batch = module.make_batch(8)
        loss = model(**batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for schedule in ("gpipe", "1f1b"):
        run = here.json(*words, "--schedule", schedule, "--trace", f"{schedule}.sqlite")
        assert [step["loss"] for step in run["steps"]] == pytest.approx(losses, rel=1e-5)
        assert run["optimizer"] == "1"  # RMSprop holds a byte for each byte of parameters
    other = here.json(*words, "--optimizer", "sgd")
    assert other["optimizer"] == "sgd" and other["steps"][2]["loss"] != pytest.approx(losses[2], rel=1e-5)
    for option in (["--save", "saves"], ["--learning-rate", "1"]):
        result = here.result(*words, *option)
        assert result.returncode == 2 and f"{option[0]} is given" in result.stderr and "--optimizer" in result.stderr


PADDED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)

    def forward(self, ids, labels):
        scores = self.head(torch.tanh(self.tokens(ids)))
        return {"loss": nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())}


def make():
    return Model()


def make_batch(samples):
    ids = torch.randint(12, (samples, 6))
    lengths = torch.randint(1, 7, (samples,))
    return {"ids": ids, "labels": ids.masked_fill(torch.arange(6) >= lengths[:, None], -100)}


def weight(batch):
    return (batch["labels"] != -100).sum()


def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01)
"""


# ---- Saved trainings ----


def test_a_saved_training_goes_on(here, language):
    layers = here.json("models", "model.py:make")["models"][0]["layers"]
    words = ["run", "model.py:make", "--balance", f"2,{layers - 2}", "-m", "2", "--batch", "4", "--optimizer", "adam"]
    whole = here.json(*words, "--steps", "4")["steps"]
    here.json(*words, "--steps", "2", "--save", "saves")
    names = json.loads((language / "saves/step-000002/model.safetensors.index.json").read_text())["weight_map"]
    model = loaded(language).make()
    assert {name.partition(".")[2] for name in names} == {name for name, _ in model.named_parameters()}
    rest = here.json(*words, "--steps", "4", "--save", "saves", "--resume")
    assert rest["resumed_from"] == 2
    assert [step["loss"] for step in rest["steps"]] == [step["loss"] for step in whole[2:]]


def test_two_processes(here, language):
    layers = here.json("models", "model.py:make")["models"][0]["layers"]
    words = ["run", "model.py:make", "--balance", f"2,{layers - 2}", "-m", "2", "--batch", "4", "--steps", "2"]
    alone = here.json(*words)
    together = json.loads(output_of(language, "launch", "-n", "2", "--", *words, "--json"))
    losses = [step["loss"] for step in alone["steps"]]
    assert [step["loss"] for step in together["steps"]] == pytest.approx(losses, rel=1e-6)


# ---- Errors ----

RUN = ["--balance", "1,1", "-m", "2", "--batch", "4", "--steps", "2"]


@pytest.mark.parametrize(
    ("words", "code", "texts"),
    [
        (["profile", "modle.py:make"], 2, ["there is no file modle.py", "FILE.py:function"]),
        (["profile", "packages.models:make"], 2, ["there is no module packages.models"]),
        (["profile", "model.py:mke"], 2, ["model.py has no function 'mke'", "make, make_batch", "write model.py:make"]),
        (["profile", "model.py:number"], 2, ["number() of model.py returns a int", "a torch.nn.Module"]),
        (["profile", "model.py:fails"], 1, ["in inner", "raised ValueError: no such width", "fails() of model.py"]),
        (["profile", "model.py:make", "--batch-from", "model.py:nothing"], 2, ["without a tensor"]),
        (["run", "model.py:make", *RUN, "--batch-from", "model.py:few"], 2, ["returns 3 samples and was asked for 1"]),
        (["run", "model.py:make", *RUN, "--batch-from", "model.py:changing"], 2, ["batch that the model does not take", "'scale'"]),
        (["run", "model.py:mixes", *RUN, "--batch-from", "model.py:one"], 2, ["compares samples with each other"]),
        (["run", "model.py:no_loss", *RUN, "--batch-from", "model.py:one"], 1, ["raised IndexError", "loss() of model.py"]),
        (["run", "model.py:breaks", *RUN, "--batch-from", "model.py:one"], 1, ["raised RuntimeError: broken"]),
        (["run", "mlp", *RUN, "--batch-from", "model.py:few"], 2, ["--batch-from is model.py:few for mlp"]),
        (["run", "model.py:make", *RUN, "--chunky", "2"], 2, ["--chunky is not an option of run"]),
    ],
)
def test_errors_name_the_value_and_the_remedy(here, language, words, code, texts):
    with (language / "model.py").open("a") as file:
        file.write(textwrap.dedent(TROUBLE))
    result = here.result(*words)
    assert result.returncode == code, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1 or code == 1, result.stderr
    assert lines[-1].startswith("pipescope: ")
    for text in texts:
        assert text in result.stderr
    assert result.stdout == ""
    assert "_commands.py" not in result.stderr


TROUBLE = """

def number():
    return 5


def inner():
    raise ValueError("no such width")


def fails():
    return inner()


def nothing(samples):
    return "words"


def few(samples):
    return make_batch(3)


calls = []


def changing(samples):
    calls.append(samples)
    batch = make_batch(samples)
    if len(calls) > 1:
        del batch["scale"]
    return batch


class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.second(self.first(x))
        return x @ x.T


def mixes():
    return Mixes()


def one(samples):
    return torch.randn(samples, 4)


def no_loss():
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


class Breaks(nn.Module):
    def forward(self, x):
        raise RuntimeError("broken")


def breaks():
    return nn.Sequential(nn.Linear(4, 4), Breaks())
"""


def test_an_existing_file_stays_without_force(here, language):
    (language / "p.json").write_text("mine")
    words = ["profile", "model.py:make", "-o", "p.json", "--micro-batch-sizes", "2", "--time-limit", "1s"]
    result = here.result(*words)
    assert result.returncode == 1 and "--force" in result.stderr
    assert (language / "p.json").read_text() == "mine"
    assert here.result(*words, "--force").returncode == 0
    assert json.loads((language / "p.json").read_text())["model"] == "model.py:make"
    result = here.result("profile", "model.py:make", "-o", "model.py", "--force")
    assert result.returncode != 0 and (language / "model.py").read_text() == LANGUAGE


def started(folder, *words):
    return subprocess.Popen([sys.executable, "-m", "pipescope", *words], cwd=folder, env=environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def wait_for(line, process):
    assert any(each == f"{line}\n" for each in process.stderr), line


@pytest.mark.parametrize("words", [["profile", "model.py:make", "-o", "out"], ["run", "model.py:make", *RUN, "--trace", "out"]])
def test_ctrl_c_while_the_model_is_made_leaves_nothing(language, words):
    with (language / "model.py").open("a") as file:
        file.write("\n\ndef make():\n    print('making', flush=True)\n    import time\n    time.sleep(200)\n")
    with started(language, *words) as process:
        wait_for("making", process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    assert not (language / "out").exists()


def test_ctrl_c_ends_a_training_after_its_step(here, language):
    layers = here.json("models", "model.py:make")["models"][0]["layers"]
    words = ["run", "model.py:make", "--balance", f"2,{layers - 2}", "-m", "2", "--batch", "4", "--steps", "1000000", "--trace",
             "run.sqlite", "--profile", "p.json"]
    here.json("profile", "model.py:make", "-o", "p.json", "--micro-batch-sizes", "2", "--time-limit", "1s")
    with (language / "model.py").open("a") as file:
        file.write("\n\nfirst_batch = make_batch\n\n\ndef make_batch(samples):\n    print('step', flush=True)\n"
                   "    return first_batch(samples)\n")
    with started(language, *words) as process:
        for _ in range(8):
            wait_for("step", process)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130 and "interrupted after" in rest
    assert "step\n" not in rest
    with sqlite3.connect(language / "run.sqlite") as trace:
        assert trace.execute("SELECT count(*) FROM PIPESCOPE_TASK").fetchone()[0] > 0


# ---- The program without Python ----

PROGRAM = str(PACKAGE / "pipescope" / "commands" / "bin" / "pipescope")


def test_the_program_finds_its_python(language):
    named = {"PIPESCOPE_PYTHON": sys.executable, "PIPESCOPE_TORCH_PROGRAM": torch_program()}
    assert "model.py:make" in output_of(language, "models", "model.py:make", program=PROGRAM, **named)
    missing = pipescope_command(language, "models", "model.py:make", program=PROGRAM, **{**named, "PIPESCOPE_PYTHON": "/none"})
    assert missing.returncode == 1 and "there is no /none" in missing.stderr and "PIPESCOPE_PYTHON" in missing.stderr
    bare = pipescope_command(language, "models", "model.py:make", program=PROGRAM, **{**named, "PYTHONPATH": ""})
    assert bare.returncode == 1 and "cannot load pipescope's engine" in bare.stderr
    assert len(bare.stderr.splitlines()) == 1


def torch_program():
    from pipescope._installed import engine_package, folder_of

    return str(folder_of(engine_package()) / "bin" / "pipescope-torch")


def test_help_says_how_to_name_a_model(here):
    for command in ("profile", "run"):
        text = here.result(command, "--help").stdout
        assert "model.py:make" in text and "--batch-from FILE:NAME" in text
