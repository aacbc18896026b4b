"""Where a result comes from: the line that every page and file under bench/results carries."""
import datetime
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commit():
    """Of the sources. Results that are written at the same time are no difference, any other edit is."""
    def git(*words):
        return subprocess.run(["git", *words], capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()

    edited = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!docs")
    return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if edited else "")


def machine():
    model = next((row.split(":", 1)[1].strip() for row in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if row.startswith("model name")), platform.processor() or platform.machine())
    return f"{model}, {len(os.sched_getaffinity(0))} virtual cores"


def about(command, **more):
    return {"machine": machine(), "date": datetime.date.today().isoformat(), "commit": commit(), "command": command} | more
