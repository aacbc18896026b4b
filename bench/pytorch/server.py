"""A stitchd of this build, with a store under build/."""

import os
import pathlib
import signal

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "pytorch"


def use_own_server() -> None:
    """From now on the package starts a stitchd of this build, with a store of its own."""
    (WORK / "cache").mkdir(parents=True, exist_ok=True)
    os.environ |= {"XDG_RUNTIME_DIR": str(WORK), "STITCH_CACHE_DIR": str(WORK / "cache")}
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler says that there is no GPU


def end_server() -> None:
    """Ends the stitchd that serves our socket, so that the next run has one of its own build."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"stitchd") and any(word.startswith(bytes(WORK)) for word in words):
            os.kill(int(process.name), signal.SIGTERM)
