"""What the front ends' options have in common: fields of a dataclass, whose values are checked, given or by environment."""

import difflib
import os

_LONGEST_MS = 600_000  # that a server lets a look-up wait


def nearest(word: str, words) -> str:
    """" (did you mean …?)", to go on a message about a word that is none of these; empty when none is like it."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""


def checked(settings: type, choices: dict, name: str, value, origin: str):
    """A value for the field `name` of the dataclass `settings`: a truth value (also as text), a number of milliseconds,
    one of the field's choices, or text. Errors: ValueError that begins with `origin`."""
    default = settings.__dataclass_fields__[name].default
    if isinstance(default, bool):
        if isinstance(value, str) and value.lower() in ("0", "false", "", "1", "true"):
            value = value.lower() in ("1", "true")
        if not isinstance(value, bool):
            raise ValueError(f"{origin}: expected true or false, found {value!r}")
    elif isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LONGEST_MS:
            raise ValueError(f"{origin}: expected a number of milliseconds from 0 to {_LONGEST_MS:,}, found {value!r}")
    elif name in choices and value not in choices[name]:
        near = nearest(str(value), choices[name])
        raise ValueError(f"{origin}: {value!r} is none of {', '.join(choices[name])}{near}")
    elif name == "server" and value is not None and not isinstance(value, str):
        raise ValueError(f"{origin}: expected an address, found {value!r}")
    return value


def from_environment(settings: type, choices: dict, variables: dict) -> dict:
    """Values of the fields whose variables are set now. Errors: ValueError, with the variable."""
    return {
        name: checked(settings, choices, name, os.environ[variable], f"${variable}")
        for name, variable in variables.items()
        if os.environ.get(variable)
    }
