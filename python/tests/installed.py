"""What the package does where it is installed, outside of the tree and of the build: run by scripts/test-wheel in an
environment of the wheel, and by test_wheel.py on what the build installs. Says "the package works" at its end.

    python installed.py [FOLDER]     a folder for what a run leaves behind, such as the socket of the stitchd that starts
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from daemons import servers

# A page's example, so that a daemon has something to plan.
NODES = [
    {"op": "parameter", "attributes": {"type": "f32[8,768]"}},
    {"op": "exp", "operands": [0]},
    {"op": "reduce", "operands": [1], "attributes": {"kind": "sum", "dimensions": [1]}},
]
GRAPH = {"format": "stitch-graph", "version": 1, "name": "sums", "nodes": NODES, "results": [2]}

C_PROGRAM = """
#include <stdio.h>
#include "stitch.h"
int main(void) {
  stitch_client* client = NULL;
  puts(stitch_version());
  return stitch_client_open("unix:///nowhere/stitchd.sock", NULL, &client) == STITCH_UNAVAILABLE ? 0 : 1;
}
"""


def check_contents(package: pathlib.Path) -> None:
    programs = {"stitch", "stitchd", "stitch-runner", "stitch-compiler"}
    assert {file.name for file in (package / "bin").iterdir()} >= programs
    assert all(os.access(package / "bin" / name, os.X_OK) for name in programs)
    assert (package / "lib" / "libstitch.so.0").exists()
    for name in ("py.typed", "_native.pyi", "include/stitch.h", "torch/__init__.py", "jax/__init__.py", "onnx/__init__.py"):
        assert (package / name).is_file(), name


def check_programs(version: str) -> None:
    from stitch import _programs

    for name in ("stitch", "stitchd"):
        script = f"import sys, stitch._programs; sys.argv = ['{name}', '--version']; stitch._programs.{name}()"
        command = [shutil.which(name, path=str(pathlib.Path(sys.executable).parent)), "--version"]
        said = subprocess.run(
            command if command[0] else [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        assert said.strip().endswith(version), said
    # All libraries of all programs are found, whatever path this process has for them.
    for program in ("stitch", "stitchd", "stitch-runner", "stitch-compiler"):
        libraries = subprocess.run(["ldd", _programs.find(program)], capture_output=True, text=True, check=True).stdout
        assert "not found" not in libraries, libraries


def check_c_interface(package: pathlib.Path, version: str, folder: pathlib.Path) -> None:
    """A C program that has nothing but the package's header and library."""
    compiler = shutil.which("cc")
    if compiler is None:
        return
    (folder / "program.c").write_text(C_PROGRAM)
    flags = ["-std=c99", "-Wall", "-Werror", f"-I{package}/include", f"-L{package}/lib", "-l:libstitch.so.0"]
    subprocess.run([compiler, "program.c", "-o", "program", *flags], cwd=folder, check=True)
    said = subprocess.run(
        [folder / "program"], env={**os.environ, "LD_LIBRARY_PATH": f"{package}/lib"}, capture_output=True, text=True
    )
    assert said.returncode == 0 and said.stdout.strip() == version, said


def check_plan(folder: pathlib.Path) -> int:
    """A fragment planned by a stitchd that the package starts, and run on the emulated device; the stitchd's process."""
    import numpy
    import stitch

    plan = stitch.plan(GRAPH, deadline_ms=120_000)
    result = plan.run(numpy.zeros((8, 768), "float32"))
    numpy.testing.assert_array_equal(result, numpy.full(8, 768, "float32"))
    report = stitch.report()
    assert report["launches"] == plan.info["launches"] == 1 and report["plans_by_source"] == {"predicted": 1}, report
    (server,) = servers(folder)
    return server


def end(server: int) -> None:
    """Asks a stitchd to end, as a user would; it takes its compilers and runners along."""
    children = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split()
    os.kill(server, 15)
    for process in (server, *map(int, children)):
        until = time.monotonic() + 30
        while is_running(process):
            assert time.monotonic() < until, f"process {process} of a stitchd is left"
            time.sleep(0.05)


def is_running(process: int) -> bool:
    """Also false of one that has ended and that nobody has waited for."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_entry_point() -> None:
    import importlib.metadata

    (point,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="stitch")
    assert point.value == "stitch.torch:backend"
    try:
        import torch
    except ImportError:
        return
    assert "stitch" in torch._dynamo.list_backends(exclude_tags=())
    assert callable(point.load())


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    os.environ.update(XDG_RUNTIME_DIR=str(folder), STITCH_CACHE_DIR=str(folder / "cache"))
    (folder / "cache").mkdir(exist_ok=True)
    for name in ("STITCH_SERVER", "STITCH_START", "STITCH_PROGRAMS", "STITCH_MODE"):
        os.environ.pop(name, None)
    import stitch

    package = pathlib.Path(stitch.__file__).parent
    tree = pathlib.Path(__file__).resolve().parents[2]
    assert tree not in package.resolve().parents, f"{package} is in the tree"
    check_contents(package)
    check_programs(stitch.__version__)
    check_c_interface(package, stitch.__version__, folder)
    check_entry_point()
    try:
        server = check_plan(folder)
        end(server)
    finally:
        for process in servers(folder):
            os.kill(process, 9)
    print("the package works:", package)


if __name__ == "__main__":
    main()
