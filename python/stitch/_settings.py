"""What the front ends' options have in common: fields of a dataclass, where their values come from, and their checks.

An argument comes before the environment, that before the user's file, and that before the default. Environment and file
are read when a program asks, not when it imports the package.
"""

import difflib
import logging
import os
import pathlib
import tomllib

from . import _native

log = logging.getLogger("stitch")

# Of numbers: what they count, the least and the most. A server lets a look-up wait for ten minutes.
_NUMBERS = {
    "deadline_ms": ("milliseconds", 0, 600_000),
    "buckets": ("plans", 1, 1024),
    "budget_seconds": ("seconds", 0, 30 * 86_400),
    "max_workspace_bytes": ("bytes", 0, (1 << 63) - 1),
    "device_id": ("GPUs", 0, 1023),
    "programs": ("programs", 1, 1 << 20),
    "user_compute_stream": ("a stream's handle", 0, (1 << 64) - 1),
}
_TEXTS = {"server": "an address", "lock": "a file's path"}
# What a file may say for all front ends; a table of a front end's name takes what that has.
_COMMON = (
    "budget_seconds", "deadline_ms", "device", "disable", "effort", "improve", "max_workspace_bytes", "server",
)  # fmt: skip
_TABLES = ("torch", "jax", "onnx")
_VARIABLES = {
    "device": "STITCH_DEVICE",
    "disable": "STITCH_DISABLE",
    "effort": "STITCH_EFFORT",
    "budget_seconds": "STITCH_BUDGET_SECONDS",
    "max_workspace_bytes": "STITCH_MAX_WORKSPACE_BYTES",
    "lock": "STITCH_LOCK",
}
EFFORTS = ("none", "quick", "full")
PRECISIONS = ("default", "eager")
MODES = ("tune", "replay", "off")
_LOGGERS = ("torch", "jax", "onnx")


def nearest(word: str, words) -> str:
    """" (did you mean …?)", to go on a message about a word that is none of these; empty when none is like it."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""


def checked_number(name: str, value, origin: str) -> int:
    """A number that the option `name` may be; text of digits, too. Errors: ValueError that begins with `origin`."""
    unit, least, most = _NUMBERS[name]
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise ValueError(f"{origin}: expected a number of {unit} from {least} to {most:,}, found {value!r}")
    return number


def checked(settings: type, choices: dict, name: str, value, origin: str):
    """A value for the field `name` of the dataclass `settings`: a truth value (also as text), a number, one of the
    field's choices, or text. Errors: ValueError that begins with `origin`."""
    default = settings.__dataclass_fields__[name].default
    if isinstance(default, bool):
        if isinstance(value, str) and value.lower() in ("0", "false", "", "1", "true"):
            value = value.lower() in ("1", "true")
        if not isinstance(value, bool):
            raise ValueError(f"{origin}: expected true or false, found {value!r}")
    elif name in _NUMBERS:
        if value is not None or default is not None:
            value = checked_number(name, value, origin)
    elif name in choices and value not in choices[name]:
        near = nearest(str(value), choices[name])
        raise ValueError(f"{origin}: {value!r} is none of {', '.join(choices[name])}{near}")
    elif name == "lock" and isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif name in _TEXTS and value is not None and not isinstance(value, str):
        raise ValueError(f"{origin}: expected {_TEXTS[name]}, found {value!r}")
    return value


def given(settings: type, choices: dict, table: str) -> dict:
    """What environment and file say of a front end's fields. Errors: ValueError, with the variable, or file and key."""
    follow_environment()
    fields = settings.__dataclass_fields__
    path, values = read_file()
    found = {}
    for name, value in {**values, **values.get(table, {})}.items():
        if name in fields:
            place = f"{path}: {table}.{name}" if name in values.get(table, {}) else f"{path}: {name}"
            found[name] = checked(settings, choices, name, value, place)
        elif name in values.get(table, {}):
            raise ValueError(f"{path}: {table} has no option {name!r}{nearest(name, fields)}")
    for name, variable in _VARIABLES.items():
        if name in fields and os.environ.get(variable):
            found[name] = checked(settings, choices, name, os.environ[variable], f"${variable}")
    if mode() == "off" and "disable" in fields and not os.environ.get(_VARIABLES["disable"]):
        found["disable"] = True
    return found


def mode() -> str:
    """What of Stitch's is used: "tune" (all), "replay" (what is stored), "off" (nothing), of $STITCH_MODE. Errors:
    ValueError."""
    asked = os.environ.get("STITCH_MODE") or "tune"
    if asked not in MODES:
        raise ValueError(f"$STITCH_MODE: {asked!r} is none of {', '.join(MODES)}{nearest(asked, MODES)}")
    return asked


def tunes_anew() -> bool:
    """Whether what is asked for is to be tuned although a plan may be stored."""
    return os.environ.get("STITCH_FORCE_TUNE") == "1" and mode() == "tune"


def constraints_of(settings) -> str:
    """What a front end's fields `deterministic`, `batch_invariant` and `precision` ask of our kernels' results, as
    `stitch.plan` takes it."""
    wanted = {
        "deterministic": settings.deterministic,
        "batch_invariant": settings.batch_invariant,
        "eager_precision": settings.precision == "eager",
    }
    return ",".join(name for name, asked in wanted.items() if asked)


_said: set = set()
_logs: str | None = None


def follow_environment() -> None:
    """What the environment says of the process, and not of a call: what is logged, and that something of it is nobody's.
    Asked for again whenever options are read, so that a program may change it."""
    follow_logs()
    for name, known in _native.unknown_variables():
        if name not in _said:
            _said.add(name)
            near = f" (did you mean {known}?)" if known else ""
            log.warning("%s is set, and nothing here reads it%s; `stitch env` lists what is read", name, near)


def follow_logs() -> None:
    """Sets loggers as $STITCH_LOGS says, once for each of its values: names with commas, "torch", "jax", "onnx" or "all"
    (the logger `stitch`, which is above them), as TORCH_LOGS has them: "torch" for INFO and above, "+torch" for DEBUG,
    "-torch" for errors alone. What is logged goes to standard error where the program has no handler."""
    global _logs
    asked = os.environ.get("STITCH_LOGS", "")
    if asked == (_logs or ""):
        return
    _logs = asked
    levels = {"+": logging.DEBUG, "-": logging.ERROR}
    for word in filter(None, (word.strip() for word in asked.split(","))):
        name = word.lstrip("+-")
        if name not in (*_LOGGERS, "all"):
            log.warning("$STITCH_LOGS: %r is none of %s, all%s", name, ", ".join(_LOGGERS), nearest(name, _LOGGERS))
            continue
        logger = logging.getLogger("stitch" if name == "all" else f"stitch.{name}")
        logger.setLevel(levels.get(word[0], logging.INFO))
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s %(levelname)s: %(message)s"))
            log.addHandler(handler)


def file() -> pathlib.Path:
    """The user's file: $STITCH_CONFIG, or stitch/config.toml in $XDG_CONFIG_HOME (~/.config)."""
    if named := os.environ.get("STITCH_CONFIG"):
        return pathlib.Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    return pathlib.Path(folder) / "stitch" / "config.toml"


def read_file() -> tuple[pathlib.Path, dict]:
    """The file and what it says; nothing where there is none, unless it was named. Errors: ValueError."""
    path = file()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if os.environ.get("STITCH_CONFIG"):
            raise ValueError(f"$STITCH_CONFIG: there is no file {path}") from None
        return path, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    for name, value in values.items():
        if name not in (*_COMMON, *_TABLES):
            raise ValueError(f"{path}: there is no option {name!r}{nearest(name, (*_COMMON, *_TABLES))}")
        if isinstance(value, dict) != (name in _TABLES):
            raise ValueError(f"{path}: {name} is {'a table' if name in _TABLES else 'no table'}")
    return path, values


def server() -> str | None:
    """The address of a stitchd that environment or file name."""
    return os.environ.get("STITCH_SERVER") or read_file()[1].get("server")
