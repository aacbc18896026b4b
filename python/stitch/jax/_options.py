"""Options of `stitch.jax.jit`: its keywords, then the environment, then their defaults."""

import dataclasses

from .. import _locks
from .._settings import EFFORTS, PRECISIONS, checked, constraints_of, given as given_elsewhere


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
    effort: str = "quick"
    """What the server does in the background for better plans, which the next process has: "none" (nothing), "quick" (it
    tunes what it had to predict), "full" (it measures a hundred more candidates of every fragment, where it measures)."""
    improve: bool = True
    """False: as effort "none"."""
    budget_seconds: int = 0
    """How long the server may tune what a compilation asked for; 0: for as long as it takes."""
    deterministic: bool = False
    """Equal inputs give equal bits, as far as our kernels go."""
    batch_invariant: bool = False
    """A row's bits do not depend on how many rows there are, as far as our kernels go."""
    precision: str = "default"
    """"eager": every operator's result is rounded to its type. "default": values stay wider between operators, which is
    faster and mostly nearer to the exact result."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    max_workspace_bytes: int | None = None
    """A program that needs more memory beside its arguments and results is not taken: XLA runs the function."""
    lock: str | None = None
    """A file of `stitch.jax.write_lock` (or `stitch lock`): calls are the programs that it names and no others; XLA runs
    the rest."""
    disable: bool = False
    """XLA runs everything."""

    @property
    def tuned(self) -> str:
        """The effort, all said of it."""
        return self.effort if self.improve and self.lock is None else "none"

    @property
    def constraints(self) -> str:
        """On results of our kernels, as `stitch.plan` takes them."""
        return constraints_of(self)


_CHOICES = {
    "device": ("auto", "emulated"),
    "fallback": ("xla", "error"),
    "products": ("xla", "library", "faster", "ours"),
    "effort": EFFORTS,
    "precision": PRECISIONS,
}


def list_options() -> list[str]:
    """Keywords that `stitch.jax.jit` has besides those of jax.jit."""
    return [field.name for field in dataclasses.fields(Settings)]


def check(given: dict) -> None:
    """Errors: ValueError for a value that an option may not have."""
    for name, value in given.items():
        checked(Settings, _CHOICES, name, value, f"option {name!r}")


def settings_of(given: dict) -> Settings:
    """Reads environment, file and lock now, not when the function was wrapped. Errors: ValueError, with variable or key;
    those of `_locks.read`."""
    settings = Settings(**{**given_elsewhere(Settings, _CHOICES, "jax"), **given})
    return settings if settings.lock is None else dataclasses.replace(settings, lock=_locks.read(settings.lock))
