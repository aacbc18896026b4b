"""Options of the back end: torch.compile's `options` or `mode`, the environment, the user's file, their defaults."""

import dataclasses

from .._settings import EFFORTS, PRECISIONS, checked, constraints_of, given, nearest
from . import _locks

# PyTorch's words, as options. What they say of CUDA graphs is about who makes these: none is made here.
MODES = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"effort": "full"},
    "max-autotune-no-cudagraphs": {"effort": "full"},
    "lite": {"effort": "none"},
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """One back end's options; each field is an option of that name."""

    device: str = "auto"
    """Where CPU tensors' kernels run: "emulated" (Stitch's emulated GPU), or "auto" (nowhere: PyTorch runs them). Those
    of CUDA tensors run on their GPU."""
    fallback: str = "eager"
    """What runs where Stitch has no kernel: "eager" (PyTorch), "inductor" (PyTorch, as Inductor compiles it), or "error"
    (compilation fails and says what it was)."""
    deadline_ms: int = 0
    """How long compilation waits for plans; those that come later are swapped in between two calls."""
    effort: str = "quick"
    """What the server does in the background for better plans: "none" (nothing), "quick" (it tunes what it had to
    predict), "full" (it measures a hundred more candidates of every fragment, where it measures)."""
    improve: bool = True
    """False: as effort "none"."""
    budget_seconds: int = 0
    """How long the server may tune what a compilation asked for; 0: for as long as it takes."""
    deterministic: bool = False
    """Equal inputs give equal bits; so do plans under torch.use_deterministic_algorithms(True)."""
    batch_invariant: bool = False
    """A row's bits do not depend on how many rows there are."""
    precision: str = "default"
    """"eager": every operator's result is rounded to its type, as PyTorch's kernels round it; chains of element-wise
    operators have eager's bits. "default": values stay wider between operators, which is faster and mostly nearer to the
    exact result."""
    products: str = "torch"
    """Who multiplies matrices, convolves and attends: "torch" (PyTorch's calls, in their places), or programs of ours
    around them: "ours" (kernels of ours wherever there are any, fused with what surrounds them), "faster" (where these
    are predicted to be), "library" (cuBLASLt and cuDNN, or on the emulated device the host's)."""
    random: str = "stitch"
    """Who draws random numbers: "stitch" (kernels, where they are used, from seeds of PyTorch's generator), or "eager"
    (PyTorch, with the numbers that eager has)."""
    max_workspace_bytes: int | None = None
    """Plans that need more memory beside their inputs and results are not taken: PyTorch runs these operators."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    lock: str | None = None
    """A file of `stitch.torch.write_lock`: pieces run no other plans than those that it names; PyTorch runs the rest."""
    buckets: int = 16
    """How many plans a part of a graph may have for extents that change from call to call (dynamic shapes)."""
    disable: bool = False
    """PyTorch runs everything."""

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
    "fallback": ("eager", "inductor", "error"),
    "effort": EFFORTS,
    "precision": PRECISIONS,
    "products": ("torch", "ours", "faster", "library"),
    "random": ("stitch", "eager"),
}


def list_options() -> list[str]:
    """Names that `options` may have."""
    return [field.name for field in dataclasses.fields(Settings)]


def list_mode_options(mode: str | None = None) -> dict:
    """What each of PyTorch's words for modes means as options, or what one of them does."""
    return {word: dict(options) for word, options in MODES.items()} if mode is None else dict(MODES[_mode(mode)])


def _mode(mode: str) -> str:
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}{nearest(str(mode), MODES)}")
    return mode


def settings_of(mode: str | None, options: dict | None) -> Settings:
    """Reads environment, file and lock now, not when the package is imported. Errors: ValueError, naming the nearest;
    those of `_locks.read`."""
    asked = {} if mode is None else list_mode_options(mode)
    for name, value in (options or {}).items():
        if name not in list_options():
            raise ValueError(f"stitch has no option {name!r}{nearest(name, list_options())}; it has {list_options()}")
        asked[name] = checked(Settings, _CHOICES, name, value, f"option {name!r}")
    settings = Settings(**{**given(Settings, _CHOICES, "torch"), **asked})
    return settings if settings.lock is None else dataclasses.replace(settings, lock=_locks.read(settings.lock))
