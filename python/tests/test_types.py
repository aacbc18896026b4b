"""Types, as a checker sees them in a user's program: what is right passes its strict mode, and what is wrong does not."""

import os
import pathlib
import subprocess
import sys

import pytest

import stitch

pytest.importorskip("mypy")
PACKAGE = pathlib.Path(stitch.__file__).parent

# Of the package's own modules nothing is said, as of whatever is installed; frameworks are looked at by nobody here.
CONFIGURATION = """
[mypy]
strict = True
[mypy-stitch.*]
ignore_errors = True
[mypy-torch.*,functorch.*,triton.*,jax.*,jaxlib.*,onnxruntime.*]
follow_imports = skip
ignore_missing_imports = True
"""

PROGRAM = """
import pathlib

import numpy
import stitch
import stitch.jax
import stitch.onnx
import stitch.torch

plan: stitch.Plan = stitch.plan({"format": "stitch-graph"}, deadline_ms=5, max_workspace_bytes=0)
y = plan.run(numpy.zeros((8, 768), "float32"), out=[numpy.zeros(8, "float32")])
label: str = plan.info["label"]
plan.save(pathlib.Path("plan.stitch"))
try:
    stitch.tune(stitch.fragment(b"HloModule m"), effort="full", budget_seconds=3).watch()
except stitch.Timeout as error:
    print(error.kind, stitch.why("softmax.json")["differs"])
program = stitch.program("model.onnx", constraints="deterministic", lock=pathlib.Path("lock"))
shape: tuple[int, ...] = program.inputs[0].shape
program.launch([1, 2], [3], stream=4)
fits: bool = stitch.compatibility(program, "l4").fitness == "runs" or stitch.compatibility("p", ordinal=1).target is None
version: str = stitch.connect(start=False).server_version
launches: int = stitch.report()["launches"]
stitch.reset()

options = stitch.onnx.SessionOptions()
options.enable_profiling = True
options.graph_optimization_level = stitch.onnx.GraphOptimizationLevel.ORT_DISABLE_ALL
session = stitch.onnx.InferenceSession("model.onnx", options, [("StitchExecutionProvider", {"programs": 2})])
logits = session.run(["logits"], {node.name: numpy.zeros(3) for node in session.get_inputs()})
step = stitch.jax.jit(lambda x: x, device="emulated")
done: bool = stitch.torch.wait(3.0)
names: list[str] = stitch.torch.list_options() + stitch.jax.list_options()
stitch.torch.write_lock("plans.lock")
"""

WRONG = {
    'stitch.plan("x", deadline=5)': "call-arg",
    'stitch.plan("x", deadline_ms="soon")': "arg-type",
    "stitch.plan(5)": "arg-type",
    'stitch.program("x").input': "attr-defined",
    'stitch.compatibility("x").fitness == "good"': "comparison-overlap",
    "stitch.Timeuot": "attr-defined",
    "stitch.onnx.SessionOptions().enable_profilin": "attr-defined",
    'stitch.onnx.InferenceSession("x", providers=3)': "arg-type",
    "stitch._native.Client().server_version.major": "attr-defined",
}


def checked(program: str, folder) -> list[str]:
    """What the checker says of a program, a line for each mistake."""
    (folder / "mypy.ini").write_text(CONFIGURATION)
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_a_users_program_has_types(tmp_path):
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native.pyi").exists(), "the target stitch_native_stub was not built"
    assert checked(PROGRAM, tmp_path) == []
    lines = ["import stitch", "import stitch.onnx", *WRONG]
    found = [line for line in checked("\n".join(lines) + "\n", tmp_path) if ": error:" in line]
    assert [(line.split(":")[1], line.rsplit("[", 1)[-1].rstrip("]")) for line in found] == [
        (str(number), code) for number, code in enumerate(WRONG.values(), start=3)
    ], "\n".join(found)
