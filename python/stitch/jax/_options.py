"""Options of `stitch.jax.jit`: its keywords, then the environment, then their defaults."""

import dataclasses
import difflib
import os


@dataclasses.dataclass(frozen=True)
class Settings:
    """One function's options; each field is a keyword of `stitch.jax.jit`."""

    device: str = "auto"
    """Where arrays of the CPU are computed: "emulated" (Stitch's emulated GPU), or "auto" (XLA runs everything)."""
    fallback: str = "xla"
    """What runs where Stitch has no program: "xla" (the function itself), or "error" (tracing fails and says why)."""
    deadline_ms: int = 60_000
    """How long compilation waits for plans; without them XLA runs the function."""
    improve: bool = True
    """Whether the server tunes in the background what it had to predict."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    disable: bool = False
    """XLA runs everything."""


_CHOICES = {"device": ("auto", "emulated"), "fallback": ("xla", "error")}
_VARIABLES = {"device": "STITCH_DEVICE", "disable": "STITCH_DISABLE"}


def list_options() -> list[str]:
    """Keywords that `stitch.jax.jit` has besides those of jax.jit."""
    return [field.name for field in dataclasses.fields(Settings)]


def nearest(word: str, words) -> str:
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check(given: dict) -> None:
    """Errors: ValueError for a value that an option may not have."""
    for name, value in given.items():
        _checked(name, value, f"option {name!r}")


def _checked(name: str, value, origin: str):
    default = Settings.__dataclass_fields__[name].default
    if isinstance(default, bool):
        if isinstance(value, str) and value.lower() in ("0", "false", "", "1", "true"):
            value = value.lower() in ("1", "true")
        if not isinstance(value, bool):
            raise ValueError(f"{origin}: expected true or false, found {value!r}")
    elif isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{origin}: expected a number of milliseconds, found {value!r}")
    elif name in _CHOICES and value not in _CHOICES[name]:
        near = nearest(str(value), _CHOICES[name])
        raise ValueError(f"{origin}: {value!r} is none of {', '.join(_CHOICES[name])}{near}")
    elif name == "server" and value is not None and not isinstance(value, str):
        raise ValueError(f"{origin}: expected an address, found {value!r}")
    return value


def settings_of(given: dict) -> Settings:
    """Reads the environment now, not when the function was wrapped. Errors: ValueError, with the variable."""
    values = {}
    for name, variable in _VARIABLES.items():
        if os.environ.get(variable):
            values[name] = _checked(name, os.environ[variable], f"${variable}")
    return Settings(**{**values, **given})
