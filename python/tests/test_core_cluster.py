"""Layouts on a cluster: the answers of simulate --cluster and plan --cluster."""

import copy
import dataclasses
import json
import pickle
import re
import subprocess

import pipescope
import pytest
from conftest import fields_of
from pipescope import _values
from pipescope.__main__ import PROGRAM

GPT = "gpt:layers=4,hidden=256,heads=4,sequence=4096,vocabulary=512,attention=flash"
EXPERTS = GPT + ",experts=8,top_k=2"


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "c.json"
    nodes = [
        {"device": "A100", "count": 2, "devices": 4, "hours_between_failures": 1000},
        {"device": "V100", "count": 1, "devices": 4},
    ]
    link = {"bytes_per_second": 25_000_000_000, "latency_ns": 5000}
    fields = {"format": "pipescope.cluster", "version": 1, "name": "c", "nodes": nodes, "between_nodes": link}
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture
def timed(tmp_path):
    """A profile with the time of an update, which is also in p.json."""
    profile = pipescope.Profile.from_dict(fields_of(8, optimizer_ns=80_000, dtype="bfloat16"))
    profile.save(tmp_path / "p.json")
    return profile


def command(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def words_of(options):
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        words += [option] if value is True else [option, str(value)]
    return words


def in_python(message):
    """The message of a command with the names that Python has for its options."""
    return _values.in_python(re.sub(r"--([a-z-]*[a-z])", lambda match: match[1].replace("-", "_"), message))


def as_json(answer):
    """The fields of an answer that the command prints too."""
    fields = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    fields = {name: value for name, value in fields.items() if name not in ("timeline", "memory", "_asked") and value is not None}

    def plain(value):
        return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value

    return json.loads(json.dumps(fields, default=plain))


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def expect_same(answer, printed):
    # Fields that JSON leaves out have a default.
    fields = without_nulls(as_json(answer))
    printed = without_nulls({name: value for name, value in printed.items() if name != "peak_bytes"})
    assert {name: fields[name] for name in printed} == printed
    assert set(fields) - set(printed) <= {"memory_unknown", "replicas"}


LAYOUTS = [
    (GPT, {"batch": 8}),
    (GPT, {"batch": 8, "partitions": 2, "data_parallel": 2, "tensor_parallel": 2, "sequence_parallel": True, "zero": 1,
           "recompute": "full", "micro_batch_size": 2, "gradient_bytes": 2}),
    (GPT, {"batch": 8, "partitions": 2, "interleave": 2, "context_parallel": 2, "gradient_bucket": "40MB",
           "sends": "serial", "dtype": "float16", "device_types": "A100"}),
    (GPT, {"batch": 8, "partitions": 3, "cuts": "0,3,1", "optimizer": "bf16-adam", "no_master_weights": True,
           "offload": "25GB/s", "device_types": "A100"}),
    (GPT + ",lora=4", {"batch": 8, "partitions": 2, "optimizer": "adam8bit", "device_types": "A100"}),
    (EXPERTS, {"batch": 8, "data_parallel": 8, "expert_parallel": 8, "token_dispatch": "node", "device_types": "A100"}),
    (GPT, {"batch": 8, "partitions": 3, "device_types": "A100:2,V100:1", "schedule": "auto", "dtype": "float16"}),
    ("p.json", {"batch": 8, "partitions": 2, "data_parallel": 2, "optimizer": "adam", "device_types": "A100"}),
    ("p.json", {"batch": 8, "partitions": 2, "balance": "3,5", "checkpoint": "except_last", "device_types": "A100",
                "schedule": "gpipe", "master_weights": True}),
    ("p.json", {"batch": 8, "partitions": 2, "interleave": 2, "recompute": "full", "device_types": "A100"}),
]


def test_a_hugging_face_configuration_describes_a_model(cluster, tmp_path):
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512}
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 512, "max_position_embeddings": 1024}))
    model = "gpt:layers=4,hidden=256,heads=4,sequence=512,vocabulary=512,mlp=512,gated=true,norm=rms"
    options = {"batch": 8, "partitions": 2, "device_types": "A100"}
    step = pipescope.simulate_layout(f"hf:{tmp_path},sequence=512", cluster, **options)
    assert step.step_ns == pipescope.simulate_layout(model, cluster, **options).step_ns
    assert step.model_parameters == step.active_parameters == 2 * 512 * 256 + 4 * (4 * 256 * 256 + 3 * 256 * 512 + 512) + 256
    with pytest.raises(pipescope.UsageError, match="model_type is 'llama4'; the known families are llama"):
        (tmp_path / "config.json").write_text('{"model_type": "llama4"}')
        pipescope.simulate_layout(f"hf:{tmp_path}", cluster, **options)


@pytest.mark.parametrize(("model", "options"), LAYOUTS)
def test_simulates_as_the_command_does(cluster, timed, tmp_path, model, options):
    usual = {} if "device_types" in options else {"device_types": "A100"}
    file = tmp_path / model if model == "p.json" else model
    printed = command("simulate", file, "--cluster", cluster, *words_of({**options, **usual}), "--json")
    assert printed.returncode in (0, 3), printed.stderr
    step = pipescope.simulate_layout(timed if model == "p.json" else model, cluster, **options, **usual)
    expect_same(step, json.loads(printed.stdout))
    assert step.peak_bytes == json.loads(printed.stdout)["peak_bytes"]
    assert len(step.timeline) > step.micro_batches
    # Its options give it again, whole steps as they are.
    again = pipescope.simulate_layout(timed if model == "p.json" else model, cluster, **step.options)
    assert (again.step_ns, again.peak_bytes, again.layout.devices) == (step.step_ns, step.peak_bytes, step.layout.devices)


PLANS = [
    (GPT, {"batch": 8, "devices": "2..8", "tokens": 1e12, "rank_by": "cost", "repair_time": "2h", "schedule": "1f1b"}),
    (EXPERTS, {"batch": 8, "devices": 8, "token_dispatch": "node", "device_types": "A100", "gradient_bucket": "40MB",
               "sends": "overlapped"}),
    (GPT, {"batch": 16, "devices": 4, "steps": 100, "deadline": "1h", "ramp": "8,8,32", "optimizer": "muon",
           "storage_bandwidth": "1GB/s", "device_types": "A100"}),
    ("p.json", {"batch": 8, "devices": 4, "optimizer": "adam", "checkpoint_time": "10s", "restart_time": "60s"}),
]


@pytest.mark.parametrize(("model", "options"), PLANS)
def test_plans_as_the_command_does(cluster, timed, tmp_path, model, options):
    file = tmp_path / model if model == "p.json" else model
    printed = command("plan", file, "--cluster", cluster, *words_of(options), "--json")
    assert printed.returncode in (0, 3), printed.stderr
    fields = json.loads(printed.stdout)
    plan = pipescope.plan_cluster(timed if model == "p.json" else model, cluster, **options)
    assert len(plan.candidates) == len(fields["candidates"]) > 0
    for candidate, each in zip(plan.candidates, fields.pop("candidates")):
        expect_same(candidate, each)
    for name, value in fields.items():
        assert json.loads(json.dumps(getattr(plan, name))) == value, name
    assert plan.best is plan.candidates[0]
    again = pipescope.simulate_layout(timed if model == "p.json" else model, cluster, **plan.best.options)
    assert (again.step_ns, again.peak_bytes) == (plan.best.step_ns, plan.best.peak_bytes)
    table = plan.to_pandas()
    assert list(table["step_ns"]) == [each.step_ns for each in plan.candidates]
    assert list(table["tensor_parallel"]) == [each.layout.tensor_parallel for each in plan.candidates]


def test_fits_a_program_to_measured_steps(cluster, tmp_path):
    options = {"batch": 8, "device_types": "A100"}
    runs = tmp_path / "runs.csv"
    runs.write_text("data-parallel,zero,recompute,micro-batch-size,batch,seconds\n1,0,none,1,8,1\n2,0,none,1,8,0.5\n")
    step = pipescope.simulate_layout(GPT, cluster, measured=runs, **options)
    assert step.step_ns == pytest.approx(1e9, rel=0.1)
    assert [each["measured_ns"] for each in step.measured["steps"]] == [1_000_000_000, 500_000_000]
    plan = pipescope.plan_cluster(GPT, cluster, measured=runs, devices="1,2", **options)
    assert plan.measured["work_factor"] == step.measured["work_factor"]
    assert plan.best.layout.program == "measured"
    assert pipescope.simulate_layout(GPT, cluster, **plan.best.options).step_ns == plan.best.step_ns
    with pytest.raises(pipescope.UsageError, match="line 2: seconds is '0'"):
        runs.write_text("seconds,batch\n0,8\n")
        pipescope.plan_cluster(GPT, cluster, measured=runs, **options)


def test_takes_a_file_a_path_and_a_schedule(cluster, timed, tmp_path):
    options = {"batch": 8, "partitions": 2, "device_types": "A100"}
    expected = pipescope.simulate_layout(timed, cluster, **options)
    for model in (tmp_path / "p.json", str(tmp_path / "p.json")):
        assert pipescope.simulate_layout(model, str(cluster), **options) == expected
    own = pipescope.Schedule("zero-bubble-h1", lanes=2, chunks=8)
    assert pipescope.simulate_layout(GPT, cluster, **options, schedule=own).step_ns == (
        pipescope.simulate_layout(GPT, cluster, **options, schedule="zero-bubble-h1").step_ns
    )


def test_says_what_is_infeasible_without_an_exception(cluster):
    large = "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=50257"
    step = pipescope.simulate_layout(large, cluster, batch=1, device_types="A100")
    assert not step.feasible
    assert "infeasible" in repr(step)
    plan = pipescope.plan_cluster(large, cluster, batch=8, devices=1)
    assert plan.best is None
    assert "no layout fits" in plan.infeasible_because


def test_writes_a_trace(cluster, tmp_path):
    options = {"batch": 8, "partitions": 2, "device_types": "A100", "trace": tmp_path / "t.sqlite"}
    step = pipescope.simulate_layout(GPT, cluster, **options)
    assert len(pipescope.Trace.open(tmp_path / "t.sqlite").simulated) == len(step.timeline)
    with pytest.raises(pipescope.Error, match="exists"):
        pipescope.simulate_layout(GPT, cluster, **options)
    pipescope.simulate_layout(GPT, cluster, **options, force=True)


def test_answers_are_copied_pickled_and_drawn(cluster):
    step = pipescope.simulate_layout(GPT, cluster, batch=8, partitions=2, data_parallel=2, device_types="A100")
    assert copy.deepcopy(step) == step == pickle.loads(pickle.dumps(step))
    assert "4 devices of type A100: pipeline 2 x data 2" in repr(step)
    assert "<svg" in step._repr_html_()
    assert sum(step.step_parts.values()) == pytest.approx(1)
    assert sum(step.bubble_causes.values()) == pytest.approx(step.bubble_fraction)


WRONG = [
    (GPT, {"batch": 7, "data_parallel": 2}),
    (GPT, {"batch": 8, "tensor_parallel": 3}),
    (GPT, {"batch": 8, "partitions": 64}),
    (GPT, {"batch": 8, "balance": "2,4"}),
    (GPT, {"batch": 8, "zero": 4}),
    (GPT, {"batch": 8, "schedule": "all"}),
    (GPT, {"batch": 8, "token_dispatch": "node"}),
    ("gpt:layers=4", {"batch": 8}),
    ("p.json", {"batch": 8, "gradient_bytes": 2}),
    ("p.json", {"batch": 8, "recompute": "selective"}),
    ("p.json", {"batch": 8, "tensor_parallel": 2}),
    ("missing.json", {"batch": 8}),
]
WRONG_PLANS = [
    (GPT, {"batch": 8, "tokens": 0}),
    (GPT, {"batch": 8, "checkpoint_time": "0s"}),
    (GPT, {"batch": 8, "devices": "8..4"}),
    (GPT, {"batch": 8, "schedule": "pipedream"}),
    (GPT, {"batch": 8, "optimizer": "adamax"}),
    (GPT, {"batch": 8, "rank_by": "price"}),
    ("p.json", {"batch": 8, "tokens": 1000}),
]


@pytest.mark.parametrize(
    ("name", "model", "options"),
    [("simulate", *each) for each in WRONG] + [("plan", *each) for each in WRONG_PLANS],
)
def test_refuses_as_the_command_does(cluster, timed, tmp_path, name, model, options):
    usual = {} if name == "plan" else {"device_types": "A100"}
    file = model if model.startswith("gpt:") else tmp_path / model
    printed = command(name, file, "--cluster", cluster, *words_of({**options, **usual})).stderr
    function = {"simulate": pipescope.simulate_layout, "plan": pipescope.plan_cluster}[name]
    with pytest.raises(pipescope.Error) as refusal:
        function(timed if model == "p.json" else file, cluster, **options, **usual)
    assert str(refusal.value) in in_python(printed)
    assert "--" not in str(refusal.value)


def test_refuses_what_is_no_model(cluster):
    with pytest.raises(TypeError, match="model is a int"):
        pipescope.simulate_layout(3, cluster, batch=8)
    with pytest.raises(TypeError, match="chunks"):
        pipescope.simulate_layout(GPT, cluster, batch=8, chunks=4)
    with pytest.raises(pipescope.UsageError, match="a plan tries named schedules"):
        pipescope.plan_cluster(GPT, cluster, batch=8, schedule=pipescope.Schedule("1f1b", lanes=2, chunks=4))


def test_reports_progress_and_passes_its_exceptions_on(cluster):
    shares = []
    pipescope.plan_cluster(GPT, cluster, batch=8, devices=4, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)

    class OwnError(Exception):
        pass

    def fail(_):
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine"):
        pipescope.plan_cluster(GPT, cluster, batch=8, progress=fail)
