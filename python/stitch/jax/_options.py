"""Options of `stitch.jax.jit`: its keywords, then the environment, then their defaults."""

import dataclasses

from .._settings import checked, given as given_elsewhere


@dataclasses.dataclass(frozen=True)
class Settings:
    """One function's options; each field is a keyword of `stitch.jax.jit`."""

    device: str = "auto"
    """Where arrays of the CPU are computed: "emulated" (Stitch's emulated GPU), or "auto" (XLA computes them). Those of
    a GPU are computed there."""
    products: str = "xla"
    """Who multiplies matrices and convolves: "xla", with kernels of ours between; or the whole function is one program of
    ours, whose products are the library's ("library"), kernels of ours ("ours"), or these where they are predicted to
    be faster ("faster")."""
    fallback: str = "xla"
    """What runs where Stitch has no program: "xla" (the function itself), or "error" (tracing fails and says why)."""
    deadline_ms: int = 60_000
    """How long compilation waits for plans; without them XLA runs the function."""
    improve: bool = True
    """Whether the server tunes in the background what it had to predict."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    max_workspace_bytes: int | None = None
    """A program that needs more memory beside its arguments and results is not taken: XLA runs the function."""
    disable: bool = False
    """XLA runs everything."""


_CHOICES = {"device": ("auto", "emulated"), "fallback": ("xla", "error"), "products": ("xla", "library", "faster", "ours")}


def list_options() -> list[str]:
    """Keywords that `stitch.jax.jit` has besides those of jax.jit."""
    return [field.name for field in dataclasses.fields(Settings)]


def check(given: dict) -> None:
    """Errors: ValueError for a value that an option may not have."""
    for name, value in given.items():
        checked(Settings, _CHOICES, name, value, f"option {name!r}")


def settings_of(given: dict) -> Settings:
    """Reads environment and file now, not when the function was wrapped. Errors: ValueError, with variable or key."""
    return Settings(**{**given_elsewhere(Settings, _CHOICES, "jax"), **given})
