"""Tries the back end of torch.compile on small models and writes bench/results/pytorch.md.

    scripts/test-python --run bench/pytorch/run.py [--models NAME,…] [--output FILE]

Needs transformers and torchvision beside PyTorch. Each model runs forward, and one training step with AdamW whose step
is compiled too, on the emulated device; results, gradients and updated parameters are compared with eager in float64.
Nothing here is a time: the emulated device has none.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys

import models as zoo
import torch

OPTIONS = {"device": "emulated", "deadline_ms": 300_000, "improve": False}


def tensor_of(output):
    """The part of a model's output that a loss is made of."""
    if isinstance(output, torch.Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    raise TypeError(type(output))


def loss_of(y):
    return (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + y.square().mean()


def step(run, model, optimizer_step, inputs):
    """Result, gradients and updated parameters of one training step."""
    y = tensor_of(run(*inputs))
    loss_of(y).backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    optimizer_step()
    return [y.detach()], gradients, [p.detach().clone() for p in model.parameters()]


def error(values, right) -> float:
    """The largest difference, relative to the largest value of the tensor that it is in."""
    scaled = [((a.double() - b).abs().max() / b.abs().max().clamp_min(1e-6)).item() for a, b in zip(values, right)]
    return max(scaled)


def tried(name: str) -> dict:
    import stitch.torch

    torch.manual_seed(0)
    model, inputs = zoo.MODELS[name]()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    rows = {}

    def optimizer(of):
        return torch.optim.AdamW(of.parameters(), lr=1e-3, eps=1e-3)

    ours_optimizer = optimizer(model)
    compiled = torch.compile(model, backend="stitch", options=OPTIONS)
    with torch.no_grad():
        stitch.torch.reset()
        y = tensor_of(compiled(*inputs))
        doubled = [x.double() if x.is_floating_point() else x for x in inputs]
        right = tensor_of(copy.deepcopy(exact)(*doubled))
        row = summary(stitch.torch.report())
        row["errors"] = [[error([y], [right]), error([tensor_of(copy.deepcopy(eager)(*inputs))], [right])]]
        rows["forward"] = row

    # Running statistics of normalisations moved; begin again from the same state.
    model.load_state_dict(eager.state_dict())
    stitch.torch.reset()
    compiled_step = torch.compile(ours_optimizer.step, backend="stitch", options=OPTIONS)
    ours = step(compiled, model, compiled_step, inputs)
    row = summary(stitch.torch.report())
    theirs = step(eager, eager, optimizer(eager).step, inputs)
    right = step(exact, exact, optimizer(exact).step, doubled)
    row["errors"] = [[error(a, c), error(b, c)] for a, b, c in zip(ours, theirs, right)]
    rows["training step"] = row
    return rows


def summary(report: dict) -> dict:
    kept = ("graphs", "operators", "operators_ours", "operators_library", "kernel_calls", "eager_calls", "launches")
    return {**{name: report[name] for name in kept}, "fell_back": report["fell_back"], "failed": report["failed"]}


def cell(errors) -> str:
    return ", ".join(f"{ours:.0e} / {eager:.0e}" for ours, eager in errors)


def reasons(row) -> str:
    parts = [f"`{e['op'].removeprefix('aten.')}` {e['count']}: {e['reason']}" for e in row["fell_back"]]
    parts += [f"**{e['message']}**" for e in row["failed"]]
    return "; ".join(parts) or "nothing"


def table(results: dict) -> str:
    lines = [
        "# PyTorch models through the back end",
        "",
        "Made by `scripts/test-python --run bench/pytorch/run.py` ([docs/pytorch.md](../../docs/pytorch.md)): random"
        f" weights, small sizes, float32, PyTorch {torch.__version__}, on the emulated device. Operators are those of"
        " core ATen after decomposition, without views. *Ours* is the share of operators that are neither views nor"
        " products, convolutions or attention (*library*), and that ran in our kernels; *launches* are kernels that"
        " these took. Errors are ours / eager's, each the largest difference from eager in float64 relative to the"
        " largest value of its tensor; of a training step (AdamW, its step compiled too): of the result, the gradients,"
        " the updated parameters.",
        "",
        "| model | what | operators | library | ours | launches | errors, ours / eager's | fell back |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in results.items():
        for what, row in rows.items():
            if "error" in row:
                lines.append(f"| {name} | {what} | | | | | | **{row['error']}** |")
                continue
            others = sum(e["count"] for e in row["fell_back"])
            share = 100 * row["operators_ours"] / max(1, row["operators_ours"] + others)
            lines.append(
                f"| {name} | {what} | {row['operators']} | {row['operators_library']} | {share:.1f} % |"
                f" {row['launches']} | {cell(row['errors'])} | {reasons(row)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.MODELS))
    parser.add_argument("--output", default=str(pathlib.Path(__file__).parents[1] / "results" / "pytorch.md"))
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one model")
    parser.add_argument("--log", help="a file of results, JSON, that another run adds to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(tried(arguments.one)))
        return
    log = pathlib.Path(arguments.log) if arguments.log else None
    results = json.loads(log.read_text()) if log and log.exists() else {}
    for name in arguments.models.split(","):
        # A process each, so that one that fails takes no other with it.
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, timeout=arguments.timeout, text=True
            )
            failed = f"ended with status {done.returncode}" if done.returncode else None
        except subprocess.TimeoutExpired:
            failed = f"not done after {arguments.timeout:.0f} s"
        results[name] = {"both": {"error": failed}} if failed else json.loads(done.stdout.splitlines()[-1])
        print(name, failed or "done", file=sys.stderr, flush=True)
        if log:
            log.write_text(json.dumps(results))
        pathlib.Path(arguments.output).write_text(table(results))


if __name__ == "__main__":
    main()
