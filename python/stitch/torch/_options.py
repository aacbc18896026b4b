"""Options of the back end: of torch.compile's `options`, then of the environment, then their defaults."""

import dataclasses

from .._settings import checked, from_environment, nearest

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Settings:
    """One back end's options; each field is an option of that name."""

    device: str = "auto"
    """Where CPU tensors' kernels run: "emulated" (Stitch's emulated GPU), or "auto" (nowhere: PyTorch runs them). Those
    of CUDA tensors run on their GPU."""
    fallback: str = "eager"
    """What runs where Stitch has no kernel: "eager" (PyTorch), or "error" (compilation fails and says what it was)."""
    deadline_ms: int = 0
    """How long compilation waits for plans; those that come later are swapped in between two calls."""
    improve: bool = True
    """Whether the server tunes in the background what it had to predict."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    disable: bool = False
    """PyTorch runs everything."""


_CHOICES = {"device": ("auto", "emulated"), "fallback": ("eager", "error")}
_VARIABLES = {"device": "STITCH_DEVICE", "disable": "STITCH_DISABLE"}


def list_options() -> list[str]:
    """Names that `options` may have."""
    return [field.name for field in dataclasses.fields(Settings)]


def list_mode_options(mode: str | None = None) -> dict:
    """What each of PyTorch's words for modes means as options. Modes choose nothing yet: all mean the defaults."""
    meaning = {word: {} for word in MODES}
    return meaning if mode is None else meaning[_mode(mode)]


def _mode(mode: str) -> str:
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}{nearest(mode, MODES)}")
    return mode


def settings_of(mode: str | None, options: dict | None) -> Settings:
    """Reads the environment now, not when the package is imported. Errors: ValueError, naming the nearest option."""
    if mode is not None:
        _mode(mode)
    values = from_environment(Settings, _CHOICES, _VARIABLES)
    for name, value in (options or {}).items():
        if name not in list_options():
            raise ValueError(f"stitch has no option {name!r}{nearest(name, list_options())}; it has {list_options()}")
        values[name] = checked(Settings, _CHOICES, name, value, f"option {name!r}")
    return Settings(**values)
