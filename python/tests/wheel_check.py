"""Tries an installed wheel: wheel_check.py core|engine. scripts/wheel runs it in a fresh environment."""

import importlib.metadata
import pathlib
import subprocess
import sys

import pipescope

HALF = sys.argv[1]
PACKAGE = pathlib.Path(pipescope.__file__).parent
LAYER = {"name": "layer", "forward_ns": [2_000_000], "backward_ns": [4_000_000], "output_bytes": [4096]}
PROFILE = {"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [LAYER] * 8}


def check(holds, what):
    if not holds:
        sys.exit(f"wheel_check: {what}")


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def engine_fits(path):
    """Whether this is a file of the core, or of the engine for the installed torch."""
    package = path.relative_to(PACKAGE.parent).parts[0]
    version = importlib.metadata.version("torch").split(".")
    return not package.startswith("pipescope_torch_") or package == f"pipescope_torch_{version[0]}_{version[1]}"


def check_libraries():
    """Every library that the package's files need is there, but for those of Qt; torch's too if it is installed."""
    of_torch = ("libtorch", "libc10", "libcu", "libnv")
    files = [path for package in PACKAGE.parent.glob("pipescope*") for path in package.rglob("*")]
    if HALF == "engine":  # engines for other versions of torch find other libraries
        files = [path for path in files if engine_fits(path)]
    for path in sorted(path for path in files if path.is_file() and is_elf(path)):
        lines = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()
        missing = [line.split()[0] for line in lines if "not found" in line]
        missing = [name for name in missing if not name.startswith("libQt6")]  # PySide6 or the system may have it later
        # An extension finds torch's libraries in the process; see pipescope/_torch.py.
        missing = [name for name in missing if HALF == "engine" or not name.startswith(of_torch)]
        check(not missing, f"{path.name} lacks {', '.join(missing)}")


check("site-packages" in str(PACKAGE), f"{PACKAGE} is not the installed package")
check_libraries()
profile = pipescope.Profile.from_dict(PROFILE)
simulation = profile.simulate(balance=[4, 4], chunks=4, batch=4, checkpoint="never")
check(simulation.step_ns == 5 * 4 * 6_000_000, f"the step is {simulation.step_ns} ns")
check(simulation.timeline._repr_html_().startswith("<svg"), "no picture of the timeline")
for command in ([sys.executable, "-m", "pipescope"], [pathlib.Path(sys.executable).parent / "pipescope"]):
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    check(said.stdout == f"pipescope {pipescope.__version__}\n", f"{command} says {said.stdout}{said.stderr}")
if HALF == "engine":
    import torch

    layers = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
    model = pipescope.GPipe(layers, balance=[2, 2], devices=["cpu", "cpu"], chunks=2)
    input = torch.randn(8, 16)
    model(input).sum().backward()
    check(all(each.grad is not None for each in model.parameters()), "no gradients")
    profile = pipescope.profile(layers, torch.randn(2, 16))
    check(len(profile) == 4, f"the profile has {len(profile)} layers")
    said = subprocess.run([sys.executable, "-m", "pipescope", "models"], capture_output=True, text=True, timeout=60,
                          check=False)
    check(said.returncode == 0, f"pipescope models says {said.stderr}")
print(f"wheel_check: {HALF} works, version {pipescope.__version__}")
