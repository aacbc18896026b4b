"""The programs that travel with the package: stitchd, stitch, stitch-runner, stitch-compiler."""

import os
import pathlib
import shutil
import sys

from . import _nvidia, errors


def find(name: str) -> str:
    """The path of a program: of $STITCH_PROGRAMS, of the package, or on PATH."""
    folders = [os.environ.get("STITCH_PROGRAMS"), pathlib.Path(__file__).parent / "bin"]
    for folder in folders:
        if folder and (pathlib.Path(folder) / name).is_file():
            return str(pathlib.Path(folder) / name)
    found = shutil.which(name)
    if found and pathlib.Path(found).resolve() != pathlib.Path(sys.argv[0]).resolve():
        return found
    raise errors.Unavailable(f"no program {name}: not beside the package, in $STITCH_PROGRAMS, or on PATH")


def environment() -> dict:
    """The environment for a program: NVIDIA's Python package of NVRTC is found where no toolkit is."""
    result = dict(os.environ)
    folders = _nvidia.compiler_folders()
    before = result.get("LD_LIBRARY_PATH")
    if folders:
        result["LD_LIBRARY_PATH"] = ":".join(([before] if before else []) + folders)
    return result


def _become(name: str) -> None:
    program = find(name)
    os.execve(program, [program, *sys.argv[1:]], environment())


def stitch() -> None:
    """The console script `stitch`."""
    _become("stitch")


def stitchd() -> None:
    """The console script `stitchd`."""
    _become("stitchd")
