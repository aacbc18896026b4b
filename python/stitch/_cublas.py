"""Where cuBLASLt is for programs on a GPU: PyPI's nvidia-cublas puts it where no loader looks."""

import ctypes
import functools
import importlib.util
import os
import pathlib

_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")


@functools.cache
def find() -> str | None:
    """Loads it into the process, which the native code then finds it in by its name; which one, or None. One that the
    process or the loader's path has comes before that of the package, and STITCH_CUBLAS_LT before all."""
    if os.environ.get("STITCH_CUBLAS_LT"):
        return os.environ["STITCH_CUBLAS_LT"]
    for candidate in (*_NAMES, *_of_packages()):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return candidate
    return None


def _of_packages() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    folders = [pathlib.Path(place) for place in (spec.submodule_search_locations if spec else [])]
    return [str(file) for folder in folders for name in _NAMES for file in sorted(folder.glob(f"*/lib/{name}"))]
