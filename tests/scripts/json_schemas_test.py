#!/usr/bin/env python3
"""What the commands print with --json fits docs/schemas/, and the pages of docs/ name every option and key.

    json_schemas_test.py BIN            the folder with the built programs
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from json_schema import Schemas

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SCHEMAS = Schemas(DOCS / "schemas")
MODEL = "mlp:layers=4,width=16"


def profile(layers=8, **more):
    """A profile of equal layers, one sample a micro-batch."""
    layer = {"forward_ns": [20000], "backward_ns": [40000], "output_bytes": [1024], "saved_bytes": [4096],
             "parameter_bytes": 65536, "flops": [1000000]}
    return {"format": "pipescope.profile", "version": 1, "samples": [1], **more,
            "layers": [{"name": f"layer {number}", **layer} for number in range(layers)]}


def parts_of(schema):
    """The schema and all schemas inside it."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []:
        yield from parts_of(part)


def keys_of(value):
    for key, each in value.items() if isinstance(value, dict) else []:
        yield key
        yield from keys_of(each)
    for each in value if isinstance(value, list) else []:
        yield from keys_of(each)


class Shell(unittest.TestCase):
    program = "pipescope"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "p.json").write_text(json.dumps(profile()))
        (self.folder / "noisy.json").write_text(json.dumps(profile(16, step_cv=0.05, host_cores=2)))

    def call(self, line):
        words = line.split()
        return subprocess.run([BIN / self.program, *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              check=False)

    def expect_fits(self, line, codes=(0,), schema=None):
        result = self.call(line + " --json")
        self.assertIn(result.returncode, codes, line + "\n" + result.stderr)
        value = json.loads(result.stdout)
        name = (schema or line.split()[0]) + ".schema.json"
        self.assertEqual(SCHEMAS.errors(name, value), [], line)
        return value

    def expect_options(self, command, text):
        """The text names every option of the command's --help."""
        help_text = self.call(command + " --help").stdout.split("Options:\n")[1]
        for option in set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE)) - {"--help"}:
            self.assertTrue(re.search(re.escape(option) + r"(?![\w-])", text), f"{command}: {option}")


class Checker(unittest.TestCase):
    """A test that cannot fail proves nothing."""

    def test_finds_each_kind_of_fault(self):
        good = {"was_open": True, "tasks": 1, "steps": 1, "recorded_until_ns": 5, "dropped": 0, "clock_drift_ns": -1,
                "from_version": 2, "log_trouble": None}
        name = "recover.schema.json"
        self.assertEqual(SCHEMAS.errors(name, good), [])
        self.assertEqual(SCHEMAS.errors(name, good | {"more": 1}), ["$.more is not in the schema"])
        self.assertEqual(SCHEMAS.errors(name, good | {"tasks": 1.5}), ["$.tasks is 1.5, no integer"])
        self.assertEqual(SCHEMAS.errors(name, good | {"tasks": None}), ["$.tasks is None, no integer"])
        self.assertEqual(SCHEMAS.errors(name, good | {"tasks": True}), ["$.tasks is True, no integer"])
        self.assertEqual(SCHEMAS.errors(name, good | {"tasks": -1}), ["$.tasks is -1, below 0"])
        good.pop("dropped")
        self.assertEqual(SCHEMAS.errors(name, good), ["$.dropped is missing"])

    def test_finds_keys_beside_those_of_a_referred_schema(self):
        faults = SCHEMAS.errors("compare.schema.json", {"unknown": 1})
        self.assertIn("$.unknown is not in the schema", faults)
        self.assertIn("$.steps is missing", faults)
        faults = SCHEMAS.errors("plan.schema.json", {"candidates": [{"unknown": 1}]})
        self.assertIn("$.candidates[0].unknown is not in the schema", faults)


class Pages(Shell):
    def commands(self):
        listed = self.call("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
        return re.findall(r"^  (\w+)", listed, re.MULTILINE)

    def test_every_command_has_a_page_and_a_schema_if_it_prints_json(self):
        commands = self.commands()
        self.assertIn("simulate", commands)
        for command in commands:
            self.assertTrue((DOCS / "cli" / f"{command}.md").exists(), command)
            if "--json" in self.call(command + " --help").stdout:
                self.assertIn(command + ".schema.json", SCHEMAS.files)

    def test_every_option_is_on_its_page(self):
        common = (DOCS / "cli.md").read_text()
        for command in self.commands():
            if "--help" not in self.call(command + " --help").stdout:
                continue  # a command of pipescope-torch, which is not built
            self.expect_options(command, (DOCS / "cli" / f"{command}.md").read_text() + common)

    def test_every_key_has_a_description_and_stands_on_its_page(self):
        pages = {"profile": ["profile-format.md"], "links": ["links-format.md"], "cluster": ["cluster-format.md", "links-format.md"],
                 "compare-runs": ["cli/compare.md"], "compare-step": ["cli/compare.md"],
                 "common": ["cli.md", "cli/simulate.md", "cli/run.md", "evidence/accuracy.md"],
                 "validate": ["cli.md", "evidence/accuracy.md"], "ablation": ["cli.md", "evidence/benchmarks.md"]}
        for name, schema in SCHEMAS.files.items():
            command = name.split(".")[0]
            text = "".join((DOCS / page).read_text() for page in pages.get(command, ["cli.md", f"cli/{command}.md"]))
            for part in parts_of(schema):
                for key, each in part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else []:
                    if each is False:
                        continue
                    self.assertTrue(each.get("description"), f"{name}: {key} has no description")
                    self.assertTrue(f"`{key}`" in text, f"{name}: {key} is on no page")


class TorchFree(Shell):
    def test_balance(self):
        pipeline = "balance p.json -n 2 -m 4 --batch 4"
        self.expect_fits(pipeline)
        self.expect_fits(pipeline + " --algorithm block")
        self.expect_fits(pipeline + " --memory-limit 1B", [3])
        self.expect_fits(pipeline + " --memory-limit 1B,2B", [3])
        self.assertIn("step_mean_ns", self.expect_fits("balance noisy.json -n 2 -m 4 --batch 4 --devices cpu,cpu"))

    def test_schedule(self):
        self.expect_fits("schedule interleaved -n 2 -m 4")
        self.assertEqual(self.call("schedule v-half -n 2 -m 4 -o v.csv").returncode, 0)
        self.expect_fits("schedule v.csv")
        self.assertIsNone(self.expect_fits("balance p.json --schedule v.csv --batch 4")["lower_bound_ns"])
        self.assertEqual(self.expect_fits("simulate p.json --schedule v.csv --balance 2,2,2,2 --batch 4")["schedule"],
                         "v.csv")
        for candidate in self.expect_fits("plan p.json --schedule v.csv --batch 4")["candidates"]:
            self.assertIsNone(candidate["lower_bound_ns"])

    def test_simulate(self):
        pipeline = " --balance 4,4 -m 4 --batch 4"
        self.expect_fits("simulate p.json" + pipeline)
        self.assertIn("step_band_ns", self.expect_fits("simulate noisy.json --balance 8,8 -m 4 --batch 4"))
        self.assertIn("replicas", self.expect_fits("simulate p.json --replicas 2" + pipeline))
        self.assertIn("device_idle_fraction", self.expect_fits("simulate p.json --devices gpu,gpu" + pipeline))
        self.assertTrue(self.expect_fits("simulate p.json --schedule all" + pipeline)["schedules"])
        self.expect_fits("simulate p.json --device-types A100" + pipeline)
        self.expect_fits("simulate p.json --memory-limit 1B" + pipeline, [3])

    def test_clusters(self):
        cluster = f" --cluster {ROOT}/examples/clusters/mixed.json"
        model = "gpt:layers=4,hidden=256,heads=8,sequence=128,vocabulary=1000"
        step = self.expect_fits(f"simulate {model}{cluster} -n 2 --data-parallel 2 --tensor-parallel 2 --batch 8 "
                                "--recompute full --device-types A100")
        self.assertGreater(step["tokens_per_second"], 0)
        self.expect_fits(f"simulate p.json{cluster} -n 2 --data-parallel 2 --batch 8 --device-types V100")
        self.assertTrue(self.expect_fits(f"plan {model}{cluster} --batch 16 --devices 4..8 --tokens 1e9")["candidates"])
        self.assertTrue(self.expect_fits(f"plan p.json{cluster} --batch 16 --devices 4..8")["candidates"])
        layout = f"explain {model}{cluster} -n 2 --data-parallel 2 --tensor-parallel 2 --batch 8 --device-types A100"
        for line in (layout, layout + " --zero 2 --gradient-bucket 40MB",
                     f"explain {model}{cluster} --batch 16 --devices 4 --gradient-bucket 40MB"):
            explained = self.expect_fits(line)
            self.assertAlmostEqual(sum(part["share"] for part in explained["parts"]), 1)
        experts = "gpt:layers=4,hidden=256,heads=8,sequence=4096,vocabulary=1000,gated=true,experts=4,top_k=2"
        split = self.expect_fits(f"explain {experts}{cluster} --data-parallel 2 --context-parallel 2 --expert-parallel 4 "
                                 "--batch 8 --device-types A100")
        self.assertEqual([split["layout"][key] for key in ("devices", "context_parallel", "expert_parallel")], [4, 2, 4])
        self.assertGreater(split["step_parts"]["all_to_all"], 0)
        self.expect_fits(f"explain p.json{cluster} -n 2 --batch 8 --device-types V100 --recompute full")
        mixed = self.expect_fits(f"simulate {model}{cluster} -n 3 --batch 8 --device-types A100:2,H100:1")
        self.assertEqual(mixed["layout"]["device"], "A100:2,H100:1")
        self.expect_fits("doctor" + cluster)
        for file in (ROOT / "examples" / "clusters").glob("*.json"):
            self.assertEqual(SCHEMAS.errors("cluster.schema.json", json.loads(file.read_text())), [])

    def test_advise(self):
        pipeline = " --balance 4,4 -m 4 --batch 4"
        moves = self.expect_fits("advise p.json" + pipeline)["moves"]
        self.assertTrue(all(move["command"] for move in moves))
        noisy = self.expect_fits("advise noisy.json --balance 8,8 -m 4 --batch 4 --devices a,b --link-bandwidth 1GB/s")
        self.assertIn("step_mean_ns", noisy["moves"][0]["simulation"])
        self.expect_fits("advise p.json --memory-limit 1B" + pipeline, [3])
        self.call("simulate p.json --trace t.sqlite" + pipeline)
        traced = self.expect_fits("advise t.sqlite")["moves"]
        self.assertEqual([move["title"] for move in traced], [move["title"] for move in moves])

    def test_plan(self):
        noisy = self.expect_fits("plan noisy.json -n 1..2 -m 1..4 --batch 4")
        self.assertIn("bubble_mean", noisy["candidates"][0])
        self.expect_fits("plan p.json -n 1..2 -m 2 --batch 4 --memory-limit 1B", [3])
        self.expect_fits("plan p.json -n 2 -m 2 --batch 4 --device-types A100,V100 --price-per-lane-hour A100=1.5")

    def test_recover(self):
        self.call("simulate p.json --balance 4,4 -m 4 --batch 4 --trace t.sqlite")
        self.expect_fits("recover t.sqlite")

    def test_compare_of_two_runs(self):
        schema = "compare-runs"
        for name, options in {"a": "--balance 4,4 -m 4", "b": "--balance 4,4 -m 4 --schedule 1f1b",
                              "c": "--balance 3,5 -m 2"}.items():
            self.call(f"simulate p.json {options} --batch 4 --trace {name}.sqlite")
        same = self.expect_fits("compare a.sqlite a.sqlite", schema=schema)
        self.assertEqual((same["step"]["difference_ns"], same["joined_by"], same["only_before"]), (0, "task", 0))
        self.assertTrue(self.expect_fits("compare a.sqlite b.sqlite", schema=schema)["groups"])
        self.assertIsNone(self.expect_fits("compare c.sqlite --baseline a.sqlite", schema=schema)["joined_by"])
        for name, length in (("before", 10), ("after", 15)):
            (self.folder / f"{name}.json").write_text(json.dumps({"traceEvents": [
                {"ph": "X", "name": "load", "cat": "user_annotation", "pid": 1, "tid": 2, "ts": 10 * k, "dur": length}
                for k in range(2)]}))
        self.assertEqual(self.expect_fits("import before.json -o imported.sqlite")["tasks"], 0)
        named = self.expect_fits("compare before.json after.json", schema=schema)
        self.assertEqual(named["joined_by"], "name")
        self.assertEqual([(each["before_ns"], each["after_ns"]) for each in named["ranges"]], [(20_000, 30_000)])

    def test_runs(self):
        line = "simulate p.json --balance 4,4 -m 2 --batch 2 --trace a.sqlite"
        self.assertEqual(self.call(line).returncode, 0)
        self.assertEqual([run["name"] for run in self.expect_fits("runs .")["runs"]], ["a.sqlite"])

    def test_doctor(self):
        self.expect_fits("doctor", [0, 1])
        step = self.folder / "saves" / "step-000001"
        step.mkdir(parents=True)
        (step / "training.json").write_text("{}")
        self.expect_fits("doctor --save saves", [1])

    def test_profiles_by_hand(self):
        page = (DOCS / "profile-format.md").read_text()
        example = json.loads(page.split("```json\n")[1].split("```")[0])
        self.assertEqual(SCHEMAS.errors("profile.schema.json", example), [])
        self.assertEqual(SCHEMAS.errors("profile.schema.json", profile()), [])


class WithTorch(Shell):
    def setUp(self):
        if not (BIN / "pipescope-torch").exists():
            self.skipTest("this build has no pipescope-torch")
        super().setUp()

    def test_models(self):
        self.expect_fits("models")

    def test_profile(self):
        quick = " --time-limit 200ms --micro-batch-sizes 1,2"
        self.expect_fits("profile " + MODEL + quick)
        self.expect_fits("profile transformer:layers=1,width=16,sequence=8,vocabulary=20" + quick)
        skips = self.expect_fits("profile unet:B=1,C=4,size=64 --no-tapes --co-running 1" + quick)
        self.assertIn("stash", set(keys_of(skips)))
        estimated = self.expect_fits("profile unet:B=1,C=4,size=64 --device meta --device-type A100")
        self.assertTrue(estimated["estimated"])

    def test_run_and_compare(self):
        pipeline = " --balance 2,2 -m 2 --batch 4 --steps 3 --profile m.json"
        self.call(f"profile {MODEL} -o m.json --time-limit 200ms --micro-batch-sizes 2")
        self.expect_fits("run " + MODEL + pipeline + " --trace t.sqlite")
        diverged = self.expect_fits("run " + MODEL + pipeline + " --optimizer adam --learning-rate 1e30")
        self.assertIsNone(diverged["steps"][-1]["loss"], "JSON has no NaN")
        small = "transformer:layers=2,width=16,sequence=8,vocabulary=20"
        self.call(f"profile {small} -o s.json --time-limit 200ms --micro-batch-sizes 2")
        split = self.expect_fits(f"run {small} --balance 2,2 -m 2 --batch 4 --steps 2 --profile s.json "
                                 "--schedule zero-bubble-h1 --trace z.sqlite")
        self.assertIn("NativeLayerNormBackward0", split["unsplit_layers"][0]["nodes"])
        self.expect_fits("run " + MODEL + pipeline + " --save d --resume")
        self.expect_fits("run " + MODEL + pipeline + " --save d --resume --save-every 1")
        self.expect_fits("compare t.sqlite")
        self.assertEqual(self.expect_fits("compare t.sqlite --step 2", schema="compare-step")["step"], 2)
        again = self.expect_fits("compare t.sqlite t.sqlite", schema="compare-runs")
        self.assertEqual(again["losses"]["equal"], 3)
        self.assertEqual(again["differences"], [])
        self.expect_fits("run emulated:p.json --balance 4,4 -m 2 --batch 2 --steps 2 --trace e.sqlite")

    def test_check(self):
        result = self.call("check --rounds 2 --json emulated:p.json --balance 4,4 -m 2 --batch 2 --steps 4 -- -m 1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(SCHEMAS.errors("check.schema.json", json.loads(result.stdout)), [])

    def test_demo(self):
        self.expect_fits(f"demo --model {MODEL} --batch 4 -m 2 --steps 1")


class Experiments(Shell):
    program = "pipescope_experiments"

    def setUp(self):
        if not (BIN / self.program).exists():
            self.skipTest(f"this build has no {self.program}")
        super().setUp()

    def test_every_option_is_on_its_page(self):
        self.expect_options("validate", (DOCS / "evidence/accuracy.md").read_text())
        self.expect_options("ablation", (DOCS / "evidence/benchmarks.md").read_text())

    def test_validate(self):
        (self.folder / "deep.json").write_text(json.dumps(profile(16)))
        self.expect_fits("validate emulated:deep.json --rounds 2 --steps 1")
        self.expect_fits("validate emulated:noisy.json --rounds 1 --steps 1")

    def test_ablation(self):
        self.expect_fits("ablation unet:B=1,C=4,size=64 --balance 30,35 --batch 2 -m 2 --rounds 1 --steps 1")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
