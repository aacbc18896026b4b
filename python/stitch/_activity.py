"""What this process's clients did, and whether anything may still be made for them."""

from . import _native, _settings


def freeze() -> None:
    """From now on nothing is compiled, tuned or predicted for this process, and no plan takes another's place.

    What a server has stored is still fetched and run. What it has not is a miss, at once: `stitch.plan` and
    `stitch.program` raise PlanMissing, `stitch.torch` leaves the piece to PyTorch, `stitch.jax` the function to XLA,
    `stitch.onnx` the run to onnxruntime where that stands behind it; `report` here and the server's
    stitch_serving_misses_total count each. A plan that is found to be wrong is taken out of use, and none comes for it.
    It cannot be taken back; forked children are frozen, too. What was asked for before may still be under way: wait for
    it (`stitch.torch.wait`), then freeze. With STITCH_MODE=replay there is nothing to be made from the beginning.
    """
    _native.freeze()


def counts() -> dict:
    """What this process's clients did since it began, as a part of `stitch.report`.

    `plans_stored` that servers had (those of programs included), `plans_predicted` that they made for a look-up,
    `misses` without a plan where none might be made, `deadlines_passed` of look-ups, `tunings` that were asked for,
    `programs` that came, `artifacts_kept` and `artifacts_fetched` (code from the cache folder, and from servers),
    `plans_loaded` onto devices, `swaps` of one plan for another; and whether the process is `frozen`. Of a warm start
    `plans_predicted`, `misses` and `swaps` are 0; what the server itself did is in its /metrics.
    """
    return {**_native.counts(), "frozen": _native.is_frozen()}


def makes_nothing() -> bool:
    """Whether what is stored is all that this process may have, if anything."""
    return _settings.mode() != "tune" or _native.is_frozen()
