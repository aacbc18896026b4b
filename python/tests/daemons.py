"""The stitchds that tests and their programs start; for programs without pytest, too."""

import os
import pathlib
import signal
import time


def servers(folder) -> list[int]:
    """Process ids of the stitchds that listen on a socket below a folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"stitchd") and any(str(folder).encode() in word for word in words):
            found.append(int(process.name))
    return found


def stop(process: int) -> None:
    """Holds a process up until SIGCONT; when this returns none of its threads runs any more."""
    os.kill(process, signal.SIGSTOP)
    # The state stands behind the name, which is in brackets.
    states = ["?"]
    while set(states) != {"T"}:
        time.sleep(0.005)
        tasks = pathlib.Path(f"/proc/{process}/task").glob("*/stat")
        states = [task.read_text().rpartition(")")[2].split()[0] for task in tasks]
