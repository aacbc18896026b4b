"""A framework in a process of its own: a crash or a hang costs one answer, not the run.

The child reads one JSON request a line and answers with one JSON line on the stream that was its standard output; what
the frameworks print goes to standard error. The parent kills the child's process group when an answer is late and
starts another with the next request. A parent that is killed takes the child with it: nobody else would end a hanging
one, and it would keep the GPU.
"""
import ctypes
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
LIBC = ctypes.CDLL(None)  # loaded before any fork
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Runs in the child before it becomes the framework."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Worker:
    """The parent's side. `log`: a file that the child's standard error goes to."""

    def __init__(self, script, arguments, log, environment=None):
        self.command = [sys.executable, str(HERE / script), *arguments]
        self.log, self.environment, self.child = log, {**os.environ, **(environment or {})}, None

    def start(self):
        with open(self.log, "a") as log:
            self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                          env=self.environment, start_new_session=True, preexec_fn=die_with_parent)

    def ask(self, request, seconds):
        """The answer, {"error": …} when there is none. An answer with "gone" comes from a process that is no more."""
        if self.child is None:
            self.start()
        try:
            self.child.stdin.write((json.dumps(request) + "\n").encode())
            self.child.stdin.flush()
        except OSError:
            return self.lost("the process had ended")
        line = self.line(time.monotonic() + seconds)
        if line is None:
            return self.lost(f"no answer in {seconds:.0f} s")
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            return self.lost(f"the process ended ({self.status()}); its last words are in the log")

    def line(self, deadline):
        """One line, b"" at the end of the stream, None when it is late."""
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            while not text.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self.child.stdout.fileno(), 1 << 16)
                if not part:
                    return b""
                text += part
        return text

    def status(self):
        try:
            return f"status {self.child.wait(timeout=5)}"
        except subprocess.TimeoutExpired:
            return "its output closed"

    def lost(self, why):
        self.stop()
        return {"error": why, "gone": True}

    def stop(self):
        if self.child is None:
            return
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            try:
                pipe.close()
            except OSError:  # words that the child did not live to read
                pass
        self.child = None


def serve(handlers):
    """The child's side: answers each request by handlers[request["do"]](request) until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request["do"]](request)
        except Exception as error:  # any failure of a framework is this peer's result
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
