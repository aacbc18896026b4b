"""Finding a stitchd, and starting one for the user where none answers."""

import atexit
import fcntl
import os
import pathlib
import subprocess
import threading
import time

from . import _chaos, _native, _programs, _settings, _tuning, errors

_SCHEME = "unix://"
_RESTART_SECONDS = 30.0
_LEAST_PATIENCE_SECONDS, _MOST_PATIENCE_SECONDS = 1.0, 10.0
_NOTICED_SECONDS = 0.5
_HEARD_SECONDS = 5.0

_lock = threading.Lock()
_clients: dict = {}
_heard: dict = {}
_in_vain: dict = {}


def address() -> str:
    """Where the server is: what $STITCH_SERVER or the user's file names, or the user's own socket."""
    return _settings.server() or _SCHEME + _native.default_socket_path()


def connect(
    server: str | None = None, *, start: bool | None = None, timeout_seconds: float = 30.0
) -> _native.Client:
    """A client of a server; of the default one where none is named.

    Where nothing answers on a socket, a stitchd is started that outlives this process and serves all processes of the
    user (`start`; by default only for the default socket, and not with STITCH_START=0). Errors: ServerUnavailable.
    """
    _settings.follow_environment()
    if _settings.mode() == "off":
        raise errors.ServerUnavailable("STITCH_MODE is off: no server is asked")
    where = server or address()
    if start is None:
        start = server is None and not _settings.server() and os.environ.get("STITCH_START") != "0"
    cache = os.environ.get("STITCH_CACHE_DIR")
    folder = str(pathlib.Path(cache) / "artifacts") if cache else None
    try:
        return _opened(where, folder, timeout_seconds)
    except errors.Unavailable as error:
        # Of one that does not answer somebody has the socket: no other can be started there.
        if not start or not where.startswith(_SCHEME) or isinstance(error.__cause__, errors.Timeout):
            raise
    try:
        _start(pathlib.Path(where[len(_SCHEME) :]))
    except errors.ServerUnavailable:
        raise
    except (errors.Unavailable, OSError) as error:  # no program, no folder
        raise errors.ServerUnavailable(f"no stitchd at {where}, and none can be started: {error}") from error
    return _opened(where, folder, timeout_seconds)


def _opened(where: str, folder: str | None, timeout_seconds: float) -> _native.Client:
    try:
        return _native.Client(where, folder, timeout_seconds)
    except errors.Timeout as error:
        raise errors.ServerUnavailable(f"stitchd at {where} does not answer: {error}") from error


def look_for(server: str | None, deadline_ms: int) -> None:
    """Whether a server answers at all, before a front end waits for what it makes; one is started as by `connect`.

    Its program has waited for no longer than the deadline then, or a second where that is less, nor than ten where it is
    more. What took it half a second in vain is not tried again for half a minute: a server that was stopped costs that
    once in a while, and not with every function. Errors: ServerUnavailable.
    """
    where, began = server or address(), time.monotonic()
    if began - _in_vain.get(where, -_RESTART_SECONDS) < _RESTART_SECONDS:
        raise errors.ServerUnavailable(f"stitchd at {where} did not answer a moment ago")
    if began - _heard.get(where, -_HEARD_SECONDS) < _HEARD_SECONDS:
        return
    patience = min(max(deadline_ms / 1000, _LEAST_PATIENCE_SECONDS), _MOST_PATIENCE_SECONDS)
    try:
        connect(server, timeout_seconds=patience)
    except errors.ServerUnavailable:
        if time.monotonic() - began >= _NOTICED_SECONDS:
            _in_vain[where] = time.monotonic()
        raise
    _heard[where] = time.monotonic()


class Shared:
    """The process's client of one server. Where that has ended since, `connect` finds or starts another, and the call
    is made again. It is started so only once in a while: a server that cannot run is not started by every call."""

    def __init__(self, server: str | None):
        self._server = server
        self._lock = threading.Lock()
        self._client = connect(server)
        self._next_start = 0.0
        self._tuned: set = set()

    def plan(self, fragment, device: str, ordinal: int, deadline_ms: int, improve: bool, constraints: str, **settings):
        arguments = (fragment, device, ordinal, deadline_ms, improve, constraints)
        plan = _chaos.answered("plan", lambda: self._called("plan", arguments, settings))
        if _settings.tunes_anew():
            self._tune_once(fragment, constraints)
        return plan

    def why(self, *arguments) -> dict:
        return self._called("why", arguments, {})

    def make_program(self, *arguments, **settings):
        return _chaos.answered("program", lambda: self._called("make_program", arguments, settings))

    def tune(self, *arguments, **settings) -> tuple[int, bool]:
        return _chaos.answered("tuning", lambda: self._called("tune", arguments, settings))

    def tune_model(self, *arguments, **settings) -> tuple[int, bool]:
        return _chaos.answered("tuning", lambda: self._called("tune_model", arguments, settings))

    def _tune_once(self, fragment, constraints: str) -> None:
        """Hands a fragment in, in this process for the first time, whatever is stored (STITCH_FORCE_TUNE)."""
        key = (fragment.to_json(), constraints)
        with self._lock:
            if key in self._tuned:
                return
            self._tuned.add(key)
        _tuning.begin(self, fragment, constraints, "full" if os.environ.get("STITCH_EFFORT") == "full" else "quick", 0)

    def job(self, number: int) -> tuple[str, str]:
        return self._called("job", (number,), {})

    def cancel(self, number: int) -> None:
        self._called("cancel", (number,), {})

    def _called(self, name: str, arguments: tuple, settings: dict):
        """Errors: ServerUnavailable where nobody answers, and no other Unavailable then."""
        client, again = self._client, False
        while True:
            try:
                return getattr(client, name)(*arguments, **settings)
            except errors.DeviceUnavailable:
                raise  # whatever becomes of the server
            except errors.Unavailable as error:
                if self._answers():
                    raise  # it lacks something itself, or is about to end
                if again:
                    raise errors.ServerUnavailable(str(error)) from error
                client, again = self._anew(client), True

    def _answers(self) -> bool:
        try:
            connect(self._server, start=False)
        except errors.Unavailable:
            return False
        return True

    def _anew(self, lost):
        with self._lock:
            if self._client is lost:
                if time.monotonic() < self._next_start:
                    raise errors.ServerUnavailable(f"no stitchd at {self._server or address()} answers")
                self._next_start = time.monotonic() + _RESTART_SECONDS
                self._client = connect(self._server)
            return self._client


def shared(server: str | None = None) -> Shared:
    """The process's one client of a server. Errors: ServerUnavailable."""
    _settings.follow_logs()
    where = server or address()
    with _lock:
        key = (where, os.getpid())
        if key not in _clients:
            _clients[key] = Shared(server)
        return _clients[key]


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def _at_exit() -> None:
    """Before the interpreter ends, and static objects with it. Nobody waits for a server then."""
    _native.end_calls()
    _native.stop_watching()


atexit.register(_at_exit)


def _start(socket: pathlib.Path, wait_seconds: float = 20.0) -> None:
    """Starts one server for the socket; whoever comes at the same time waits for that one. Errors: ServerUnavailable.

    The lock is held until the server answers, and a second process looks again before it starts another.
    """
    folder = socket.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    end = time.monotonic() + wait_seconds
    with open(folder / "start.lock", "a") as lock:
        while not _is_locked(lock):
            if time.monotonic() > end or _native.calls_ended():
                raise errors.ServerUnavailable(f"somebody else starts stitchd on {socket}, which takes long")
            time.sleep(0.02)
        if _answers(socket):
            return
        log = open(folder / "stitchd.log", "ab")
        database = []
        if cache := os.environ.get("STITCH_CACHE_DIR"):
            database = ["--db", str(pathlib.Path(cache) / "stitch.db")]
        child = subprocess.Popen(
            [_programs.find("stitchd"), "--socket", str(socket), "--log-level", "warning", *database],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=_programs.environment(),
            cwd="/",
        )
        end = time.monotonic() + wait_seconds
        while time.monotonic() < end and not _native.calls_ended():
            if _answers(socket):
                return
            if child.poll() is not None:
                break
            time.sleep(0.02)
        last = (folder / "stitchd.log").read_text(errors="replace").strip().splitlines()[-3:]
        why = f"stitchd did not start on {socket} ({folder / 'stitchd.log'}): " + " / ".join(last)
        raise errors.ServerUnavailable(why)


def _is_locked(file) -> bool:
    """Whether this process has a file's lock from now on."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _answers(socket: pathlib.Path) -> bool:
    try:
        _native.Client(_SCHEME + str(socket), None, 5.0)
        return True
    except errors.Error:
        return False
