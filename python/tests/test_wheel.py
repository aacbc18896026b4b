"""What `pip install ./python` builds is what it installs, and works where it is installed. The build itself, which takes
long where nothing is compiled yet, is scripts/test-wheel's; here is what the release build would install."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

import stitch

FOLDER = pathlib.Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = pathlib.Path(stitch.__file__).parents[2]


def test_every_target_of_the_wheel_is_built():
    built = SETTINGS["tool"]["scikit-build"]["build"]["targets"]
    installs = re.findall(r"install\(TARGETS ([^)]*)\)", (FOLDER / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert len(installs) >= 3
    for arguments in installs:
        words = arguments.split()
        kind = next(i for i, word in enumerate(words) if word in ("LIBRARY", "RUNTIME"))
        assert set(words[:kind]) <= set(built), arguments


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as the build installs it, by copies, and its entry points; not in the tree."""
    if not (BUILD / "CMakeCache.txt").exists():
        pytest.skip("the package is not a build's")
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        ["cmake", "--install", BUILD, "--component", "python", "--prefix", folder], check=True, capture_output=True
    )
    shutil.copytree(
        FOLDER / "stitch", folder / "stitch", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    for metadata in (BUILD / "python").glob("*.dist-info"):
        shutil.copytree(metadata, folder / metadata.name)
    return folder


def test_what_the_build_installs_works_outside_of_the_tree(installed, tmp_path):
    done = subprocess.run(
        [sys.executable, FOLDER / "tests" / "installed.py", tmp_path],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and f"the package works: {installed}" in done.stdout, done.stderr


def test_nothing_that_is_installed_looks_for_libraries_in_the_build(installed):
    binaries = [*(installed / "stitch" / "bin").iterdir(), *installed.glob("stitch/*.so"), *installed.glob("stitch/lib/*")]
    assert len(binaries) >= 6
    for binary in binaries:
        dynamic = subprocess.run(["readelf", "-d", binary], capture_output=True, text=True, check=True).stdout
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, f"{binary}: {dynamic}"


def test_the_wheel_compiles_what_the_release_build_has_compiled():
    """With the same options, or ccache finds nothing: an hour."""
    presets = (FOLDER.parent / "CMakePresets.json").read_text(encoding="utf-8")
    (release,) = [one for one in json.loads(presets)["configurePresets"] if one["name"] == "release"]
    wheel = SETTINGS["tool"]["scikit-build"]["cmake"]
    wanted = {"CMAKE_BUILD_TYPE": wheel["build-type"], **wheel["define"]}
    assert {name: wanted.get(name) for name in release["cacheVariables"]} == release["cacheVariables"]
    assert wanted["CMAKE_CXX_COMPILER"] == {"env": "CXX", "default": "c++"}  # CMake's own choice
    others = set(wanted) - set(release["cacheVariables"])
    assert others == {"STITCH_PYTHON_MODULE", "STITCH_BENCHMARKS", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER"}
