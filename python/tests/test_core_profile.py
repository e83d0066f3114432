"""Profile: reading, writing, and the commands' answers."""

import copy
import dataclasses
import inspect
import json
import math
import pathlib
import pickle
import subprocess
import sys
from random import Random

import numpy
import pipescope
import pytest
from conftest import fields_of
from pipescope import _results
from pipescope.__main__ import PROGRAM

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = {"balance": [4, 4], "chunks": 4, "batch": 16}


def command(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def test_warns_of_more_micro_batches_than_samples(profile):
    with pytest.warns(UserWarning, match="into 2 micro-batches"):
        profile.simulate(balance=[4, 4], chunks=8, batch=2)
    with pytest.warns(UserWarning, match="and not into 8"):
        profile.balance(2, chunks=8, batch=2)


def test_says_what_it_is(profile):
    assert profile.samples == (1, 4)
    assert (profile.model, profile.device, profile.dtype, len(profile)) == ("eight", "cpu", "float32", 8)
    assert profile.layers[3].name == "layer 3"
    assert profile.layers[3].forward_ns == (20_000, 60_000)
    assert "8 layers" in repr(profile)


@pytest.mark.parametrize("name", ["p.json", "name with blank.json", "größe-Ω.json"])
def test_is_the_same_after_saving_and_loading(profile, tmp_path, name):
    for path in (tmp_path / name, str(tmp_path / ("s" + name))):
        profile.save(path)
        assert pipescope.Profile.load(path) == profile
        with pytest.raises(pipescope.Error, match="exists"):
            profile.save(path)
        profile.save(path, force=True)


def test_is_the_same_after_copying_and_pickling(profile):
    assert copy.copy(profile) == profile == copy.deepcopy(profile) == pickle.loads(pickle.dumps(profile))
    assert pipescope.Profile.from_dict(profile.to_dict()) == profile
    assert profile != pipescope.Profile.from_dict(fields_of(7))


def test_takes_numbers_of_numpy(profile):
    fields = fields_of()
    fields["layers"][0]["forward_ns"] = numpy.array([20_000, 60_000])
    fields["samples"] = numpy.array([1, 4])
    assert pipescope.Profile.from_dict(fields) == profile
    options = {"balance": numpy.array([4, 4]), "chunks": numpy.int32(4), "batch": numpy.uint8(16)}
    assert profile.simulate(**options).step_ns == profile.simulate(**OPTIONS).step_ns


def test_refuses_what_is_no_profile(tmp_path):
    for fields in ({}, {"format": "x"}, {**fields_of(), "samples": [math.nan, 4]}, {**fields_of(), "x": object()}):
        with pytest.raises(pipescope.ProfileError):
            pipescope.Profile.from_dict(fields)
    with pytest.raises(pipescope.ProfileError, match=r"layers\[0\].forward_ns"):
        broken = fields_of()
        broken["layers"][0]["forward_ns"] = [-1, 2]
        pipescope.Profile.from_dict(broken)
    with pytest.raises(pipescope.ProfileError, match="missing.json"):
        pipescope.Profile.load(tmp_path / "missing.json")
    with pytest.raises(TypeError, match="from_json"):
        pipescope.Profile()
    for no_text in (None, 3, b"{}"):
        with pytest.raises(TypeError, match="text is a"):
            pipescope.Profile.from_json(no_text)
    for text in ("", "\ud800", "[" * 200_000, "{}"):
        with pytest.raises(pipescope.ProfileError):
            pipescope.Profile.from_json(text)
    with pytest.raises(pipescope.UsageError, match="NUL"):
        pipescope.Profile.load("a\0b")
    with pytest.raises(pipescope.ProfileError, match=r"\\xff.json"):
        pipescope.Profile.load(b"/missing/\xff.json")


def test_does_not_change(profile):
    with pytest.raises(AttributeError, match="from_dict"):
        profile.model = "another"
    fields = profile.to_dict()
    fields["layers"].clear()
    assert len(profile) == 8


def test_simulates_as_the_command_does(noisy, tmp_path):
    noisy.save(tmp_path / "p.json")
    printed = command("simulate", tmp_path / "p.json", "--balance", "8,8", "-m", 4, "--batch", 16, "--json",
                      "--link-bandwidth", "1GB/s", "--memory-limit", "1GiB")
    simulation = noisy.simulate(balance=(8, 8), chunks=4, batch=16, link_bandwidth="1GB/s", memory_limit="1GiB")
    fields = json.loads(printed.stdout)
    assert simulation.step_ns == fields["step_ns"]
    assert simulation.step_mean_ns == fields["step_mean_ns"] == simulation.expected_step_ns
    assert list(simulation.balance) == fields["balance"]
    assert simulation.lanes[1].peak.saved == fields["lanes"][1]["peak"]["saved"]
    assert simulation.partitions[1].layers == (8, 15)
    assert simulation.assumed == fields["assumed"]
    assert "8,8" in repr(simulation)


def test_balances_and_plans_as_the_commands_do(profile, tmp_path):
    profile.save(tmp_path / "p.json")
    printed = json.loads(command("balance", tmp_path / "p.json", "-n", 3, "-m", 4, "--batch", 16, "--json").stdout)
    found = profile.balance(3, chunks=4, batch=16)
    assert list(found) == printed["balance"]
    assert (found.step_ns, found.optimal, len(found)) == (printed["step_ns"], printed["optimal"], 3)
    assert profile.simulate(balance=found, chunks=4, batch=16).balance == found.balance

    printed = json.loads(command("plan", tmp_path / "p.json", "-n", "1..3", "--batch", 16, "--json").stdout)
    plan = profile.plan(partitions="1..3", batch=16)
    assert len(plan.candidates) == len(printed["candidates"])
    assert plan.best is plan.candidates[printed["best"]]
    assert plan.best.step_ns == printed["candidates"][printed["best"]]["step_ns"]
    assert profile.plan(partitions=range(1, 4), batch=16) == plan
    again = profile.simulate(**plan.best.options)
    assert again.step_ns == plan.best.step_ns
    assert list(plan.to_pandas()["step_ns"]) == [each.step_ns for each in plan.candidates]


def some_hardware(random, lanes, folder):
    """Options of a machine of that many lanes, for a planner or for one pipeline."""
    links = folder / "links.json"
    links.write_text(LINKS)
    options = random.choice([
        {},
        {"devices": ["cpu"] * lanes, "cores": random.choice([1, 2, 8])},
        {"devices": ",".join(f"d{lane}" for lane in range(lanes)), "speed": [1 / (1 + lane) for lane in range(lanes)]},
        {"speed": (round(random.uniform(0.3, 2), 3) for _ in range(lanes))},  # read once
        {"device_types": random.choice(["A100", ["H100"]])},
    ])
    options |= random.choice([
        {},
        {"link_bandwidth": "50MB/s", "link_latency": "20us", "link_sharing": "all"},
        {"link_bandwidth": 1e8, "link_protocol": "rendezvous"},
        {"links": links},
    ])
    options |= random.choice([
        {}, {"memory_limit": "1MB"}, {"memory_limit": [10**6 * (lane + 1) for lane in range(lanes)]}, {"processes": 2}
    ])
    return options | random.choice([{}, {"optimizer": "adam"}, {"optimizer": 2.5, "master_weights": False}])


LINKS = """{"format": "pipescope.links", "version": 1, "times": [{"bytes": 1, "ns": 9000}, {"bytes": 65536, "ns": 90000}]}"""


def again(profile, step):
    """What the options of an answer give."""
    options = step.options
    assert pickle.loads(pickle.dumps(step)).options == options
    return profile.simulate(**options)


def figures(step):
    """What plans and comparisons have too."""
    lanes = [(lane.busy_ns, lane.bubble_fraction, lane.peak_bytes) for lane in step.lanes]
    partitions = [(each.layers, each.lane) for each in step.partitions]
    return step.step_ns, lanes, partitions, step.replicas, step.feasible, step.optimizer, step.micro_batches


@pytest.mark.parametrize("seed", range(30))
def test_options_of_a_simulation_give_it_again(profile, tmp_path, seed):
    random = Random(seed)
    lanes = random.choice([2, 4])
    options = {"batch": 16, "chunks": random.choice([4, 8]), **some_hardware(random, lanes, tmp_path)}
    kind = random.choice(["named", "interleaved", "file", "table", "auto", "placed", "replicas"])
    options["balance"] = [8 // lanes] * lanes
    if kind == "named":
        options["schedule"] = random.choice(["gpipe", "1f1b", "zero-bubble-h1", "pipedream"])
        options |= random.choice([{}, {"in_flight": lanes, "schedule": "1f1b"}, {"backward": "first-first", "schedule": "gpipe"},
                                  {"recompute": "ordinary", "checkpoint": "always"}, {"expandable_segments": True}])
    elif kind == "interleaved":
        options |= {"schedule": "interleaved", "balance": [1] * 8 if lanes == 4 else "2,2,2,2"}
    elif kind in ("file", "table"):
        own = pipescope.Schedule("zero-bubble-h1", lanes=lanes, chunks=options.pop("chunks"))
        if kind == "file":
            own.save(tmp_path / "own.csv")
        options["schedule"] = tmp_path / "own.csv" if kind == "file" else pipescope.Schedule.from_csv(own.to_csv(), name="1f1b")
    elif kind == "auto":
        options["schedule"] = "auto"
    elif kind == "placed":
        options |= {"balance": [1] * 8 if lanes == 4 else [2] * 4, "placement": [*range(lanes), *reversed(range(lanes))]}
    else:
        options |= {"replicas": 2}
    step = profile.simulate(**options)
    assert again(profile, step) == step
    assert again(profile, step).options == step.options
    assert {**step.pipeline, **step.hardware} == {name: value for name, value in step.options.items() if value is not None}


@pytest.mark.parametrize("seed", range(12))
def test_options_of_compared_schedules_give_them_again(profile, tmp_path, seed):
    random = Random(seed)
    options = {"balance": [2] * 4, "chunks": 8, "batch": 16, **some_hardware(random, 4, tmp_path)}
    options |= random.choice([{}, {"in_flight": 3}, {"recompute": "ordinary", "checkpoint": "always"}])
    compared = profile.compare_schedules(**options).schedules
    assert len(compared) > 3
    for each in compared:
        assert figures(again(profile, each)) == figures(each), each.name


@pytest.mark.parametrize("seed", range(12))
def test_options_of_planned_pipelines_give_them_again(profile, tmp_path, seed):
    random = Random(seed)
    table = pipescope.Schedule.from_csv(pipescope.Schedule("1f1b", lanes=3, chunks=4).to_csv(), name="zero-bubble-h1")
    schedules = random.choice([None, ["interleaved", table], "1f1b,auto", "gpipe"])
    options = {"batch": 16, "chunks": [2, 4], "partitions": "1..4", **some_hardware(random, 4, tmp_path)}
    plan = profile.plan(**options, schedule=schedules, replicas=random.choice([None, "1..2"]), price_per_lane_hour=2)
    assert len(plan.candidates) > 2
    for each in plan.candidates:
        assert figures(again(profile, each)) == figures(each), each


def test_a_pipeline_and_its_hardware_are_values(profile):
    pipeline = pipescope.Pipeline(balance=[4, 4], batch=16, chunks=8, schedule="1f1b")
    hardware = pipescope.Hardware(link_bandwidth="1GB/s", memory_limit="1GiB")
    step = profile.simulate(**pipeline, **hardware)
    assert step == profile.simulate(balance=[4, 4], batch=16, chunks=8, schedule="1f1b", link_bandwidth="1GB/s", memory_limit="1GiB")
    assert profile.balance(2, batch=16, chunks=8, **hardware).feasible
    assert profile.plan(batch=16, partitions="1..2", chunks=[4, 8], **hardware).best is not None

    slower = hardware.replace(link_bandwidth="1MB/s")
    assert (slower.link_bandwidth, slower.memory_limit, hardware.link_bandwidth) == ("1MB/s", "1GiB", "1GB/s")
    assert profile.simulate(**step.pipeline, **slower).step_ns > step.step_ns
    assert repr(slower) == "Hardware(link_bandwidth='1MB/s', memory_limit='1GiB')"
    assert pipeline == pipescope.Pipeline(balance=[4, 4], batch=16, chunks=8, schedule="1f1b") != pipeline.replace(chunks=4)
    with pytest.raises(TypeError, match="bandwidth"):
        hardware.replace(bandwidth=1)
    with pytest.raises(AttributeError):
        hardware.cores = 2


def test_pipeline_and_hardware_hold_every_keyword_of_simulate():
    keywords = set(inspect.signature(pipescope.Profile.simulate).parameters) - {"self", "trace", "schedule_output", "force"}
    fields = [field.name for value in (pipescope.Pipeline, pipescope.Hardware) for field in dataclasses.fields(value)]
    assert sorted(fields) == sorted(keywords)


def test_refuses_several_schedules_where_one_is_simulated(profile):
    tables = [pipescope.Schedule(name, lanes=2, chunks=4) for name in ("1f1b", "gpipe")]
    for schedules in (tables, ["gpipe", tables[0]], "gpipe,1f1b"):
        with pytest.raises(pipescope.UsageError, match="this takes one"):
            profile.simulate(**OPTIONS, schedule=schedules)
        with pytest.raises(pipescope.UsageError, match="this takes one"):
            profile.balance(2, chunks=4, batch=16, schedule=schedules)
    with pytest.raises(TypeError, match="give texts"):
        pipescope.Schedule.from_csv(None)


def test_refuses_two_schedules_of_one_name(profile):
    table = pipescope.Schedule.from_csv(pipescope.Schedule("1f1b", lanes=2, chunks=4).to_csv(), name="gpipe")
    for schedules in (["gpipe", table], [table, table]):
        with pytest.raises(pipescope.UsageError, match="'gpipe' twice"):
            profile.plan(batch=16, schedule=schedules)


def test_says_what_is_infeasible_without_an_exception(profile):
    assert not profile.simulate(**OPTIONS, memory_limit="100kB").feasible
    found = profile.balance(2, chunks=4, batch=16, memory_limit=200_000)
    assert not found.feasible
    assert found.infeasible_because
    plan = profile.plan(batch=16, memory_limit="1kB")
    assert plan.best is None
    assert plan.infeasible_because


def test_compares_schedules(profile):
    compared = profile.compare_schedules(**OPTIONS)
    assert {"gpipe, always", "1f1b, never"} & {each.name for each in compared.schedules}
    assert all(each.step_ns > 0 for each in compared.schedules)
    assert len(compared.to_pandas()) == len(compared.schedules)
    with pytest.raises(pipescope.UsageError, match="compare_schedules"):
        profile.simulate(**OPTIONS, schedule="all")


def test_writes_a_trace_and_the_schedule_that_it_found(profile, tmp_path):
    profile.simulate(**OPTIONS, trace=tmp_path / "t.sqlite")
    with pytest.raises(pipescope.Error, match="exists"):
        profile.simulate(**OPTIONS, trace=tmp_path / "t.sqlite")
    profile.simulate(**OPTIONS, trace=tmp_path / "t.sqlite", force=True)
    assert len(pipescope.Trace.open(tmp_path / "t.sqlite").simulated) == len(profile.simulate(**OPTIONS).timeline)
    with pytest.raises(pipescope.UsageError, match="schedule_output is"):
        profile.simulate(**OPTIONS, schedule_output=tmp_path / "s.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"balance": [4, 4], "batch": 16}, "chunks is required"),
        ({"balance": [4, 5], "chunks": 4, "batch": 16}, "balance"),
        ({"balance": [8, 0], "chunks": 4, "batch": 16}, r"balance\[1\] is 0"),
        ({"balance": [], "chunks": 4, "batch": 16}, "balance: its value is empty|balance"),
        ({"balance": None, "chunks": 4, "batch": 16}, "balance is required"),
        ({"balance": [4.5, 3.5], "chunks": 4, "batch": 16}, "balance"),
        ({"balance": [[4, 4]], "chunks": [4], "batch": 1.5}, "batch"),
        ({"balance": [4, 4], "chunks": 2**70, "batch": 16}, "chunks"),
        ({"balance": [4, 4], "chunks": -4, "batch": 16}, "chunks is -4"),
        ({"balance": [4, 4], "chunks": math.nan, "batch": 16}, "chunks is 'nan'"),
        ({"balance": [4, 4], "chunks": True, "batch": 16}, "chunks is True"),
        ({"balance": [4, 4], "chunks": object(), "batch": 16}, "chunks is a object"),
        ({"balance": [4, 4], "chunks": b"4", "batch": 16}, "chunks is a bytes"),
        ({"balance": {4: 4}, "chunks": 4, "batch": 16}, "balance is a dict"),
        ({**OPTIONS, "link_bandwidth": 12}, "link_bandwidth"),
        ({**OPTIONS, "link_bandwidth": math.inf}, "link_bandwidth"),
        ({**OPTIONS, "memory_limit": "16"}, "memory_limit"),
        ({**OPTIONS, "schedule": "1f1c"}, "1f1c"),
        ({**OPTIONS, "schedule": ""}, "schedule"),
        ({**OPTIONS, "checkpoint": "some\0times"}, "NUL"),
        ({**OPTIONS, "checkpoint": "\ud800"}, "no valid text|'"),
        ({**OPTIONS, "devices": "cpu"}, "devices"),
        ({**OPTIONS, "master_weights": 1}, "True or False"),
        ({**OPTIONS, "speed": [1, math.nan]}, "speed"),
        ({**OPTIONS, "optimizer": "--help"}, "optimizer"),
    ],
)
def test_refuses_wrong_options_with_a_reason(profile, options, message):
    with pytest.raises(pipescope.UsageError, match=message) as refusal:
        profile.simulate(**options)
    assert "--" not in str(refusal.value).replace("'--help'", "")
    assert isinstance(refusal.value, ValueError)


def test_refuses_an_unknown_option_as_python_does(profile):
    with pytest.raises(TypeError, match="linkbandwidth"):
        profile.simulate(**OPTIONS, linkbandwidth="12GB/s")


def test_takes_flags_and_quantities(profile):
    free = profile.simulate(**OPTIONS)
    slow = profile.simulate(**OPTIONS, link_bandwidth="1MB/s", link_latency="10us")
    assert slow.step_ns > free.step_ns
    assert profile.simulate(**OPTIONS, link_bandwidth=1e6, link_latency=10_000).step_ns == slow.step_ns
    assert profile.simulate(**OPTIONS, speed=[1, 0.5]).step_ns > free.step_ns
    assert profile.simulate(**OPTIONS, optimizer="adam").peak_bytes > free.peak_bytes


# The commands' options and the functions' parameters: the same names.
ELSEWHERE = {"json", "profile", "help", "program_output"}
# Of layouts on a cluster alone.
CLUSTER = {"cluster", "tokens", "checkpoint_time", "restart_time", "repair_time", "data_parallel", "tensor_parallel", "context_parallel", "expert_parallel",
           "interleave", "micro_batch_size", "sequence_parallel", "zero", "gradient_bytes", "gradient_bucket", "sends", "token_dispatch", "program", "cuts",
           "measured", "offload", "no_master_weights", "steps", "deadline", "ramp", "storage_bandwidth"}
# What layouts have of the others.
OF_LAYOUTS = {"batch", "schedule", "recompute", "dtype", "device_types", "device_catalogue", "trace", "force", "balance", "checkpoint",
              "optimizer", "master_weights", "headroom", "memory_limit"}
OF_CLUSTER_PLANS = {"batch", "devices", "device_catalogue", "dtype", "optimizer", "rank_by", "schedule", "device_types", "headroom",
                    "memory_limit"}


def options_of(name):
    commands = {each["name"]: each for each in json.loads(command("--print-commands").stdout)}
    options = set()
    for option in commands[name]["options"]:
        long = [each for each in option["names"] if each.startswith("--")] or option["names"]
        options.add(long[0].lstrip("-").lower().replace("-", "_"))
    return options


def parameters_of(function):
    return set(inspect.signature(function).parameters) - {"self", "model", "progress"}


@pytest.mark.parametrize("name", ["balance", "simulate", "plan"])
def test_has_the_options_of_the_command(name):
    cluster = CLUSTER | {"partitions"} if name == "simulate" else CLUSTER
    written = {"schedule_output", "force"} if name == "plan" else set()  # simulate() writes the best one's order
    assert parameters_of(getattr(pipescope.Profile, name)) == options_of(name) - ELSEWHERE - cluster - written


def test_layouts_have_the_options_of_the_commands():
    assert parameters_of(pipescope.simulate_layout) == options_of("simulate") & (CLUSTER | {"partitions"}) | OF_LAYOUTS
    assert parameters_of(pipescope.plan_cluster) == options_of("plan") & CLUSTER | OF_CLUSTER_PLANS


def properties(schema):
    """The documented keys of an object."""
    found = set(schema.get("properties", {}))
    if "$ref" in schema:
        file, _, place = schema["$ref"].partition("#/$defs/")
        found |= properties(definitions(file or "simulate.schema.json")[place])
    return found


def definitions(file):
    return json.loads((ROOT / "docs" / "schemas" / file).read_text())["$defs"]


def schema_of(file):
    return json.loads((ROOT / "docs" / "schemas" / file).read_text())


def test_has_the_documented_fields():
    simulate = definitions("simulate.schema.json")
    compare = definitions("compare.schema.json")
    runs = definitions("compare-runs.schema.json")
    plan = definitions("plan.schema.json")["of_lanes"]
    layouts = definitions("plan.schema.json")["of_a_cluster"]
    peak = {"peak_bytes"}  # which is a property of every simulated step
    every = {
        _results.Simulation: properties(simulate["one_schedule"]) | {"timeline", "memory"},
        _results.ComparedSchedule: properties(simulate["all_schedules"]["properties"]["schedules"]["items"]),
        _results.FoundBalance: properties(schema_of("balance.schema.json")),
        _results.Plan: properties(plan) | {"notes"},
        _results.PlanCandidate: properties(
            {**plan["properties"]["candidates"]["items"], "$ref": "simulate.schema.json#/$defs/simulation"}
        ),
        _results.LayoutSimulation: properties(simulate["layout_step"]) - peak | {"timeline", "memory"},
        _results.Layout: properties(simulate["layout_figures"]["properties"]["layout"]),
        _results.ClusterPlan: properties(layouts),
        _results.ClusterCandidate: properties(layouts["properties"]["candidates"]["items"]) - peak,
        _results.SimulatedLane: properties(simulate["simulation"]["properties"]["lanes"]["items"]),
        _results.SimulatedPartition: properties(simulate["simulation"]["properties"]["partitions"]["items"]),
        _results.MemoryBreakdown: properties(definitions("common.schema.json")["memory"]),
        _results.Comparison: properties(compare["comparison"]),
        _results.ComparedLane: properties(compare["comparison"]["properties"]["lanes"]["items"]),
        _results.BubbleReport: properties(compare["bubbles"]),
        _results.RootCauses: properties(compare["roots"]),
        _results.Verdict: properties(compare["comparison"]["properties"]["verdict"]),
        _results.VerdictPart: properties(compare["comparison"]["properties"]["verdict"]["properties"]["parts"]["items"]),
        _results.VerdictChange: properties(compare["comparison"]["properties"]["verdict"]["properties"]["change"]),
        _results.RunsComparison: properties(schema_of("compare-runs.schema.json")),
        _results.Run: properties(runs["run"]),
        _results.StepDifference: properties(runs["step"]),
        _results.BubbleDifference: properties(runs["bubble"]),
        _results.TaskGroup: properties(runs["group"]),
    }
    for type_, keys in every.items():
        assert set(type_.__dataclass_fields__) - {"_asked"} == keys, type_.__name__


def test_starts_the_command():
    for words in ([sys.executable, "-m", "pipescope"], [PROGRAM]):
        assert subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout == (
            f"pipescope {pipescope.__version__}\n"
        )
    failed = subprocess.run([sys.executable, "-m", "pipescope", "simulate"], capture_output=True, timeout=60, check=False)
    assert failed.returncode == 2
