"""Functions of JAX by Stitch's kernels.

    import jax, stitch.jax
    step = stitch.jax.jit(loss, device="emulated")
    jax.jit(jax.value_and_grad(step))(parameters, batch)

Products and convolutions stay XLA's; what lies between them becomes programs, which XLA calls through its
foreign-function interface: with all derivatives, batches, loops around the function and exports. What is not supported
XLA runs itself, and it is said once per reason. docs/jax.md has the whole.
"""

import os

from .. import _locks, _native
from . import _primitive, _programs, _report
from ._jit import jit
from ._options import list_options

__all__ = ["CUSTOM_CALL", "jit", "list_options", "report", "reset", "write_lock"]

CUSTOM_CALL = _primitive.CUSTOM_CALL
"""The name of the custom call, for `jax.export.DisabledSafetyCheck.custom_call`."""


def report() -> dict:
    """What was lowered and run since the process began, or since `reset`.

    `calls` of programs that were lowered, with the `launches` of kernels, the `library_calls` and the steps that only the
    float64 reference evaluator computes (`reference_steps`) of one run of each; `programs` that were made, `runs` of all
    calls; the `operators` of what was lowered, `operators_library` (products and convolutions) and `operators_ours` among
    them; what `fell_back` to XLA, by function and reason.
    """
    return {**_report.snapshot(), "runs": _native.xla_run_count() - _report.runs_before()}


def reset() -> None:
    """Begins the report's counts anew; programs stay."""
    _report.reset(_native.xla_run_count())


def write_lock(path: str | os.PathLike[str]) -> int:
    """Writes which plans, and which code, the programs have that the process made: how many programs.

    Text for version control without times, sorted: equal programs give equal bytes. It is what `stitch.jax.jit(lock=)` and
    STITCH_LOCK take, and `stitch lock --check` looks at.
    """
    return _locks.write(path, _programs.locks())
