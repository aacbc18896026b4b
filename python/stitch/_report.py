"""What the process did with Stitch, summed up."""

import json
import sys
import typing

from . import _activity, _chaos, _native, _program

_FRONT_ENDS = ("torch", "jax", "onnx")


def report() -> dict[str, typing.Any]:
    """What the process did since it began, or since `reset`; all of it may be written as JSON.

    * `phases`: by name (docs/tracing.md has them) `count`, `us` (microseconds, those of phases inside included) and how
      many `failed`;
    * `plans_by_source`: how many fragments got theirs from where (`store`, `stale`, `predicted`, `file`, `made`), by all
      front ends, each time that a server was asked; `plans_by_label`: how well founded these plans' times were
      (`measured`, `near`, `predicted`, `default`); `missed`: those that had none stored, with fragment, name, reason
      and `source`, which is where they have one from instead, or "";
    * `launches` of kernels on any device, those of CUDA graphs once, when they were captured; `events`: `jobs` of tuning
      that were handed in, `swaps` of plans, plans `withdrawn`;
    * `fell_back`: steps of programs that others compute, with reason and `to`. Lists have 256 different entries at the
      most, `left_out` counts what came then;
    * `open_programs`: `model`, `device`, `launches` of a run, and bytes: `planned_bytes` (arena and workspaces: what a
      run needs beside inputs and results), `lower_bound_bytes` and `eager_bytes` of the arena. `peak_bytes` is the
      greatest of the first;
    * `plans_stored`, `plans_predicted`, `misses`, `deadlines_passed`, `tunings`, `programs`, `artifacts_kept`,
      `artifacts_fetched`, `plans_loaded`, `swaps`, `frozen`: what the process's clients did since it began, whatever
      `reset` forgets. Of a warm start `plans_predicted`, `misses` and `swaps` are 0;
    * `chaos`: what became of calls to servers where STITCH_CHAOS has them fail on purpose, by kind; else empty;
    * `torch`, `jax`, `onnx`: the reports of these front ends, as far as they were imported.
    """
    programs = [_of_program(program.info) for program in _program.opened()]
    return {
        **_activity.counts(),
        **json.loads(_native.sums()),
        "chaos": _chaos.counts(),
        "open_programs": programs,
        "peak_bytes": max((program["planned_bytes"] for program in programs), default=0),
        **{name: module.report() for name, module in _imported()},
    }


def reset() -> None:
    """Begins the report anew, those of the front ends, too; plans and programs stay."""
    _native.reset_sums()
    for _, module in _imported():
        module.reset()


def _imported() -> list:
    modules = [(name, sys.modules.get(f"{__package__}.{name}")) for name in _FRONT_ENDS]
    return [(name, module) for name, module in modules if hasattr(module, "report")]


def _of_program(info: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {
        **{name: info[name] for name in ("id", "model", "device", "launches", "lower_bound_bytes", "eager_bytes")},
        "planned_bytes": info["arena_bytes"] + info["workspace_bytes"],
    }
