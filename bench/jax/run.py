"""Trains small models of flax by stitch.jax beside plain JAX; writes bench/results/jax.md.

    scripts/test-python --run bench/jax/run.py [--models NAME,…] [--optimizers NAME,…] [--output FILE]

Needs jax, flax and optax. Every model runs forward and one step of its gradient; every optimizer two steps of the
perceptron. Errors are against plain JAX in float64, beside those of plain JAX in float32. On the emulated device, whose
time says nothing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import models as zoo  # noqa: E402
import numpy  # noqa: E402
from flax import nnx  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = {"device": "emulated", "deadline_ms": 600_000, "improve": False}


def exact(tree):
    """The same in float64."""
    return jax.tree.map(lambda x: x.astype("float64") if x.dtype == jnp.float32 else x, tree)


def error(tree, right) -> float:
    """The largest difference, relative to the largest value of the array that it is in, or to a thousandth of the
    largest value of all where that is more: the gradient of a key's bias is zero but for rounding."""
    exact_arrays = [numpy.asarray(value, "float64") for value in jax.tree.leaves(right)]
    largest = [numpy.abs(value).max() for value in exact_arrays if value.size]
    floor = max(largest, default=0) * 1e-3
    worst = 0.0
    for one, other in zip(jax.tree.leaves(tree), exact_arrays, strict=True):
        if other.size:
            difference = numpy.abs(numpy.asarray(one, "float64") - other).max()
            worst = max(worst, float(difference / max(numpy.abs(other).max(), floor, 1e-30)))
    return worst


def single(tree):
    """Floats as float32: parameters are made with 64-bit types switched on."""
    return jax.tree.map(lambda x: x.astype("float32") if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def model_of(name: str):
    kind, inputs = zoo.MODELS[name]
    definition, parameters, rest = nnx.split(kind(nnx.Rngs(0)), nnx.Param, ...)

    def forward(parameters, *inputs):
        return nnx.merge(definition, parameters, rest)(*inputs)

    def loss(parameters, *inputs):
        y = forward(parameters, *inputs)
        return (y * jnp.linspace(-1, 1, y.size, dtype=y.dtype).reshape(y.shape)).sum() + (y * y).mean()

    return forward, loss, single(parameters), inputs()


def compared(run, parameters, arguments) -> dict:
    """`run(jit)` makes the function of a kind of jit."""
    import stitch.jax

    stitch.jax.reset()
    ours = run(lambda f: stitch.jax.jit(f, **OPTIONS))(parameters, *arguments)
    jax.block_until_ready(ours)
    report = stitch.jax.report()
    plain = run(jax.jit)(parameters, *arguments)
    right = run(jax.jit)(exact(parameters), *[exact(value) for value in arguments])
    return {**report, "errors": [error(ours, right), error(plain, right)]}


def tried_model(name: str) -> dict:
    forward, loss, parameters, inputs = model_of(name)
    return {
        "forward": compared(lambda jit: jit(forward), parameters, inputs),
        "value and gradient": compared(lambda jit: jax.jit(jax.value_and_grad(jit(loss))), parameters, inputs),
    }


def tried_optimizer(name: str) -> dict:
    import optax

    _, loss, parameters, inputs = model_of("perceptron")
    optimizer = zoo.OPTIMIZERS[name]()

    def run(jit):
        def update(gradients, state, parameters):
            changes, state = optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, changes), state

        update = jit(update)

        def train(parameters, *inputs):
            state = optimizer.init(parameters)
            for _ in range(2):
                parameters, state = update(jax.jit(jax.grad(loss))(parameters, *inputs), state, parameters)
            return parameters

        return train

    return {"two steps": compared(run, parameters, inputs)}


def rows(results: dict) -> list[str]:
    lines = []
    for name, parts in results.items():
        for what, row in parts.items():
            if "failed" in row:
                lines.append(f"| {name} | {what} | | | | | | | **{row['failed']}** |")
                continue
            ours, plain = row["errors"]
            fell = "; ".join(f"{entry['function']} {entry['count']}: {entry['reason']}" for entry in row["fell_back"])
            if row["reference_steps"]:
                fell = f"{row['reference_steps']} steps by the reference" + (f"; {fell}" if fell else "")
            others = row["operators"] - row["operators_library"]
            lines.append(
                f"| {name} | {what} | {row['operators_library']} | {row['operators_ours']} / {others} | {row['calls']} |"
                f" {row['programs']} | {row['launches']} | {ours:.0e} / {plain:.0e} | {fell or 'nothing'} |"
            )
    return lines


def page(results: dict) -> str:
    sys.path.insert(0, str(ROOT / "bench"))
    import flax
    import optax
    import provenance

    head = [
        "|  | what | products | operators, ours / all | calls | programs | launches | errors, ours / plain | fell back |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines = [
        "# Models of flax and optimizers of optax through stitch.jax",
        "",
        "Made by `scripts/test-python --run bench/jax/run.py` ([docs/jax.md](../../docs/jax.md)): small sizes, random"
        f" weights, float32, JAX {jax.__version__}, flax {flax.__version__}, optax {optax.__version__}, on the emulated"
        " device. *Products* and convolutions are XLA's, as plain JAX has them; of the other *operators* (without views and"
        " numbers; a loop's once) those in our kernels. *Calls* are the pieces that XLA calls, *programs* what was made for"
        " them (equal pieces are one), *launches* the kernels of one run of each call. Errors are ours / plain JAX's, each the"
        " largest difference from plain JAX in"
        " float64 relative to the largest value of its array (at least a thousandth of the largest of all: some gradients"
        " are zero but for rounding): of results, of value and gradients, of the parameters after two steps of the perceptron"
        " whose update is one program.",
        "",
        f"{provenance.machine()}, commit {provenance.commit()}.",
        "",
        *head,
        *rows(results["models"]),
        "",
        *head,
        *rows(results["optimizers"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.MODELS))
    parser.add_argument("--optimizers", default=";".join(zoo.OPTIMIZERS), help="separated by semicolons")
    parser.add_argument("--output", default=str(ROOT / "bench" / "results" / "jax.md"))
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one of them")
    parser.add_argument("--log", help="a file of results, JSON, that another run adds to")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, name = arguments.one
        print(json.dumps(tried_model(name) if kind == "models" else tried_optimizer(name)))
        return
    log = pathlib.Path(arguments.log) if arguments.log else None
    results = json.loads(log.read_text()) if log and log.exists() else {"models": {}, "optimizers": {}}
    wanted = [("models", name) for name in filter(None, arguments.models.split(","))]
    # Names of optimizers have commas.
    wanted += [("optimizers", name) for name in filter(None, arguments.optimizers.split(";"))]
    for kind, name in wanted:
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", kind, name],
                stdout=subprocess.PIPE,
                timeout=arguments.timeout,
                text=True,
            )
            failed = f"ended with status {done.returncode}" if done.returncode else None
        except subprocess.TimeoutExpired:
            failed = f"not done after {arguments.timeout:.0f} s"
        results[kind][name] = {"both": {"failed": failed}} if failed else json.loads(done.stdout.splitlines()[-1])
        print(name, failed or "done", file=sys.stderr, flush=True)
        if log:
            log.write_text(json.dumps(results))
        pathlib.Path(arguments.output).write_text(page(results))


if __name__ == "__main__":
    main()
