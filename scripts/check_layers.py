#!/usr/bin/env python3
"""Fails when a folder includes what it may not. The tables below are the truth about who may use whom.

Run from anywhere: scripts/check_layers.py [ROOT]
"""

import pathlib
import re
import sys

SIMULATOR = ["simulator", "simulator/clock", "simulator/memory", "simulator/search", "simulator/plan"]
TRACE = ["trace", "trace/store", "trace/foreign", "trace/merge"]
BELOW_SIMULATOR = ["base", "schedule", "profiler/profile", "hardware", "balance"]
CORE = [*BELOW_SIMULATOR, *SIMULATOR, *TRACE, "analysis", "cluster"]
STEP_FOLDERS = ["engine/cores", "engine/lanes", "engine/device", "engine/skips", "engine/gradients", "engine/processes"]
ENGINE_FOLDERS = [*STEP_FOLDERS, "engine/step", "engine/autograd_driver"]
# Folder: the project folders it may include, besides itself.
FOLDERS = {
    "base": [],
    "schedule": ["base"],
    "profiler/profile": ["base", "schedule"],
    "hardware": ["base", "profiler/profile"],
    "balance": ["base", "schedule", "profiler/profile"],
    # What is directly in simulator/ is the simulation, its options and its figures, which the rooms ask for. A simulation
    # searches nothing.
    "simulator": [*BELOW_SIMULATOR, "simulator/clock", "simulator/memory"],
    "simulator/clock": [*BELOW_SIMULATOR, "simulator"],
    "simulator/memory": [*BELOW_SIMULATOR, "simulator", "simulator/clock"],
    "simulator/search": [*BELOW_SIMULATOR, "simulator", "simulator/clock", "simulator/memory"],
    "simulator/plan": [*BELOW_SIMULATOR, "simulator", "simulator/memory", "simulator/search"],
    "trace": ["base", "trace/store", "trace/foreign"],
    "trace/store": ["base", "schedule"],
    "trace/foreign": ["base", "schedule", "trace/store"],
    "trace/merge": ["base", "schedule", "trace", "trace/store", "trace/foreign"],
    "analysis": [*BELOW_SIMULATOR, *SIMULATOR, *TRACE],
    "cluster": [*BELOW_SIMULATOR, *SIMULATOR, "analysis"],
    "answers": CORE,
    "profiler/recorder": ["base", "schedule", "trace/store"],
    "save": ["base"],
    # The folders of the engine. What is directly in engine/ is its public interface, which uses them all, and what they
    # share: the pipeline, its partitions, layers and errors.
    "engine/cores": ["base", "schedule"],
    "engine/lanes": ["base", "schedule", "engine", "engine/cores"],
    "engine/device": ["base", "schedule", "engine"],
    "engine/skips": ["base", "schedule", "engine"],
    "engine/gradients": ["base", "schedule", "engine"],
    "engine/autograd_driver": ["base", "schedule", "engine", "engine/lanes", "engine/device", "engine/gradients"],
    "engine/processes": ["base", "schedule", "engine", "engine/lanes", "engine/device"],
    "engine/step": ["base", "schedule", "engine", *STEP_FOLDERS],
    "engine": ["base", "schedule", "save"] + ENGINE_FOLDERS,
    "models": ["base", "schedule", "profiler/profile", "engine", "engine/gradients"],
    "profiler/memory": ["base", "schedule", "profiler/profile", "engine", "models", "profiler/recorder"],
    "profiler/layers": ["base", "schedule", "profiler/profile", "hardware", "engine", "engine/cores", "engine/device", "engine/gradients", "models",
                        "profiler/recorder", "profiler/memory"],
    "gui/style": ["base", "schedule"],
    "gui/timeline": ["base", "schedule", "analysis", "gui/style"],
    "gui/document": CORE + ["gui/style", "gui/timeline"],
    "gui/what_if": CORE + ["answers", "gui/style", "gui/timeline", "gui/document", "gui/tables"],
    "gui/plan": CORE + ["answers", "gui/style", "gui/document", "gui/tables"],
    "gui/tables": CORE + ["gui/style", "gui/timeline", "gui/document"],
    "gui/console": CORE + ["gui/style", "gui/document", "gui/tables"],
    "gui/report": CORE + ["answers", "gui/style", "gui/timeline", "gui/document"],
    "gui/window": CORE + ["answers", "gui/style", "gui/timeline", "gui/document", "gui/what_if", "gui/plan", "gui/tables",
                          "gui/console", "gui/report", "cli/view"],
    "gui": ["gui/window"],
    "cli/view": ["base", "schedule", "analysis"],
    "cli": CORE + ["answers", "cli/view", "profiler/recorder", "save", "engine", "engine/cores", "engine/lanes", "engine/device",
                   "engine/processes", "models", "profiler/memory", "profiler/layers"],
    "python/src": ["base", "schedule"],
    "python/src/core": [*CORE, "answers", "cli", "python/src"],
    "python/src/engine": [*BELOW_SIMULATOR, *SIMULATOR, *TRACE, "cluster", "save", "profiler/recorder", "engine", *ENGINE_FOLDERS, "models",
                          "profiler/memory", "profiler/layers", "cli", "python/src"],
}
# The core half of cli/ is built without torch: only these files may use the torch half of the project.
CLI_TORCH = re.compile(r"^cli/torch/")
TORCH_FOLDERS = {"engine", *ENGINE_FOLDERS, "models", "profiler/memory", "profiler/layers"}

# Outside headers by their prefix: the folders that may include them.
OUTSIDE = {
    "torch": (r"^(torch|ATen|c10|caffe2)/", {"engine", "models", "profiler/memory", "profiler/layers", "cli",
                                             "python/src/engine"}),
    "Qt": (r"^(Q[A-Z]|Qt)", {"gui"}),
    "SQLite": (r"^(sqlite3\.h|SQLiteCpp/)", {"trace"}),
    "RE2": (r"^re2/", {"trace"}),
    "xxHash": (r"^xxhash\.h", {"save"}),
    "nlohmann-json": (r"^nlohmann/", {"base", "trace", "profiler/profile", "hardware", "simulator", "analysis", "cluster", "answers", "models", "profiler/recorder",
                                         "save", "cli", "gui", "python"}),
    "CLI11": (r"^CLI/", {"cli", "gui"}),
    "NVTX": (r"^nvtx3/", {"engine", "profiler/recorder", "cli"}),
    "Python": (r"^(Python\.h$|pybind11/|torch/csrc/(python_headers|utils/pybind|autograd/python_))", {"python"}),
}
# All of torch that a header may include: the tensor, and what it brings along anyway.
LIGHT_HEADERS = {"ATen/core/Tensor.h", "c10/core/Device.h", "c10/core/DispatchKey.h", "c10/core/Stream.h"}
# What torch changes from version to version, and the only files of the engine that may include it.
INTERNALS = {
    r"^torch/csrc/autograd/(?!autograd\.h$)": {"engine/torch_internals.h"},
    r"^torch/csrc/distributed/": {"engine/processes/transport.cpp", "engine/processes/nccl/nccl_plugin.cpp"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path, known):
    """The longest known folder that holds the path, or None."""
    holders = [folder for folder in known if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def faults_of(root, file):
    path = file.relative_to(root).as_posix()
    folder = folder_of(path, FOLDERS)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, included = match[1] == '"', match[2]
        place = f"{path}:{number}: includes {included}"
        if quoted:
            target = folder_of(included, FOLDERS)
            if target is None and not (file.parent / included).exists():
                yield f"{place}; include project headers by their path from the root"
            elif target and target != folder and target not in FOLDERS[folder]:
                yield f"{place}; {folder}/ may use only {', '.join(FOLDERS[folder]) or 'the standard library'}"
            elif target in TORCH_FOLDERS and folder == "cli" and not CLI_TORCH.match(path):
                yield f"{place}; only cli/torch/ may use the torch half"
            elif included == "engine/torch_internals.h" and file.suffix == ".h":
                yield f"{place}; no header may, since it takes seconds to compile; include it in the .cpp"
            continue
        for name, (pattern, allowed) in OUTSIDE.items():
            if re.match(pattern, included) and folder not in allowed and folder.split("/")[0] not in allowed:
                yield f"{place}; {folder}/ may not use {name}"
        if re.match(OUTSIDE["torch"][0], included):
            if path.startswith("engine/"):
                for pattern, allowed in INTERNALS.items():
                    if re.match(pattern, included) and path not in allowed:
                        yield f"{place}; in engine/ only {' and '.join(sorted(allowed))} may"
            is_light = included in LIGHT_HEADERS or path == "engine/torch_internals.h"
            if file.suffix == ".h" and not is_light and folder != "python/src/engine":
                light = " and ".join(sorted(LIGHT_HEADERS))
                yield f"{place}; of torch a header includes at most {light}: each torch file costs seconds to compile"
            if folder == "cli" and not CLI_TORCH.match(path):
                yield f"{place}; only cli/torch/ may use torch"


def public_headers(root):
    lists = (root / "cmake" / "PipescopePublicHeaders.cmake").read_text(encoding="utf-8")
    return set(re.findall(r"^  ([a-z_/]+\.h)\)?$", lists, re.MULTILINE))


def faults_of_public(root, public):
    for header in sorted(public):
        if not (root / header).is_file():
            yield f"cmake/PipescopePublicHeaders.cmake: {header} does not exist; correct the list"
            continue
        for number, line in enumerate((root / header).read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if match and match[1] == '"' and match[2] not in public:
                yield (f"{header}:{number}: includes {match[2]}; a public header may include only public ones; declare "
                       "the type, or list it in cmake/PipescopePublicHeaders.cmake")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files = sorted(file for folder in FOLDERS for suffix in ("*.h", "*.cpp") for file in (root / folder).rglob(suffix))
    files = sorted(set(files))
    faults = [fault for file in files for fault in faults_of(root, file)]
    faults += faults_of_public(root, public_headers(root))
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
