"""Where cuBLASLt and cuDNN are for programs on a GPU: PyPI's packages put them where no loader looks."""

import ctypes
import functools
import importlib.util
import os
import pathlib

_NAMES = {
    "cublas": ("libcublasLt.so.13", "libcublasLt.so.12"),  # of nvidia-cublas
    "cudnn": ("libcudnn.so.9",),  # of nvidia-cudnn-cu13
}
_VARIABLES = {"cublas": "STITCH_CUBLAS_LT", "cudnn": "STITCH_CUDNN"}


@functools.cache
def find(library: str) -> str | None:
    """Loads "cublas" or "cudnn" into the process, which the native code then finds it in by its name; which file, or
    None. One that the process or the loader's path has comes before that of a package, and STITCH_CUBLAS_LT or
    STITCH_CUDNN before all."""
    if named := os.environ.get(_VARIABLES[library]):
        return named
    for candidate in (*_NAMES[library], *_of_packages(library)):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return candidate
    return None


def _of_packages(library: str) -> list[str]:
    return [
        str(file) for folder in _folders() for name in _NAMES[library] for file in sorted(folder.glob(f"*/lib/{name}"))
    ]


def _folders() -> list[pathlib.Path]:
    """Where NVIDIA's packages are, wherever on the path: of the user, of a virtual environment below another."""
    spec = importlib.util.find_spec("nvidia")
    return [pathlib.Path(place) for place in (spec.submodule_search_locations or () if spec else ())]


def compiler_folders() -> list[str]:
    """Where NVRTC may be, for the loader of a program."""
    return [str(found) for of in ("cu*/lib", "cuda_nvrtc/lib") for place in _folders() for found in sorted(place.glob(of))]
