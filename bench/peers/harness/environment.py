"""The Python that the scripts run in: the one at hand where it has the packages, else the repository's .venv/peers."""
import importlib.util
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLACE = ROOT / ".venv/peers"
# As bench/models/generate for JAX. The PyTorch is the release that the results were taken with.
PACKAGES = {"jax": ["jax==0.10.2"], "torch": ["torch==2.11.0"]}


def lacks(modules):
    return [module for module in modules if importlib.util.find_spec(module) is None]


def require(*modules):
    """Returns when the modules can be imported; otherwise goes on in .venv/peers, made and filled as needed."""
    if not lacks(modules):
        return
    python = PLACE / "bin/python"
    if pathlib.Path(sys.prefix).resolve() != PLACE.resolve():
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        os.execv(python, [str(python), *sys.argv])
    packages = [package for module in lacks(modules) for package in PACKAGES[module]]
    print("installing", *packages, file=sys.stderr)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    importlib.invalidate_caches()
    if lacks(modules):
        sys.exit(f"{PLACE} still lacks {' '.join(lacks(modules))}")
