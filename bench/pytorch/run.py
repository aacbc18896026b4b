"""Tries the back end of torch.compile on small models, and writes bench/results/pytorch.md of what it saw.

    scripts/test-python --run bench/pytorch/run.py [--models NAME,…] [--precision bfloat16|autocast] [--products ours]
        [--again] [--write]

Each model runs forward, and where the zoo names an optimizer one training step whose optimizer's step is compiled too,
on the emulated device, in a process of its own with a limit of time. Results, gradients and updated parameters are
compared with eager in float64. Rows go to a log (build/pytorch/log.json); a run that is begun again at the same commit
leaves alone what the log has. --write makes the page of the log. Nothing here is a time: the emulated device has none.
"""

import argparse
import json
import multiprocessing
import pathlib
import sys
import traceback

import trial
from server import ROOT, WORK, end_server, use_own_server

sys.path.insert(0, str(ROOT / "bench"))
import page  # noqa: E402
import provenance  # noqa: E402

FORKED = multiprocessing.get_context("fork")


def work(name: str, precision: str, products: str, results) -> None:
    try:
        results.send(trial.tried(name, precision, products))
    except Exception as error:
        traceback.print_exc()
        results.send({"both": {"error": f"{type(error).__name__}: {error}"[:300]}})


def attempt(name: str, precision: str, products: str, seconds: float) -> dict:
    """A model's rows, or one that says how its process ended. The process is a fork: importing takes longest of all."""
    results, sender = FORKED.Pipe(duplex=False)
    worker = FORKED.Process(target=work, args=(name, precision, products, sender))
    worker.start()
    sender.close()
    try:
        if results.poll(seconds):
            return results.recv()
        return {"both": {"error": f"not done after {seconds:.0f} s"}}
    except EOFError:
        worker.join()
        return {"both": {"error": f"ended with status {worker.exitcode}"}}
    finally:
        worker.kill()
        worker.join()


def run(arguments, log: dict) -> None:
    commit = provenance.commit()
    for name in arguments.models.split(",") if arguments.models else trial.MODELS:
        known = log.get(name, {})
        if known.get("commit") == commit and not arguments.again:
            continue
        rows = attempt(name, arguments.precision, arguments.products, arguments.timeout)
        log[name] = {"commit": commit, "rows": rows}
        print(name, {what: page.verdict(row) for what, row in rows.items()}, file=sys.stderr, flush=True)
        arguments.log.write_text(json.dumps(log, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names of the zoo, with commas; all by default")
    parser.add_argument("--again", action="store_true", help="also what the log has of this commit")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--precision", choices=trial.PRECISIONS, default="float32", help="of parameters and inputs")
    parser.add_argument("--products", choices=("torch", "ours"), default="torch", help="who multiplies and attends")
    parser.add_argument("--output", type=pathlib.Path, help="the page; bench/results/pytorch.md, or pytorch_PRECISION.md")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one model")
    parser.add_argument("--log", type=pathlib.Path, help="build/pytorch/log.json, or as the page has it")
    arguments = parser.parse_args()
    suffix = "" if arguments.precision == "float32" else f"_{arguments.precision}"
    suffix += "" if arguments.products == "torch" else "_products"
    arguments.output = arguments.output or ROOT / "bench" / "results" / f"pytorch{suffix}.md"
    arguments.log = arguments.log or WORK / f"log{suffix}.json"
    use_own_server()
    log = json.loads(arguments.log.read_text()) if arguments.log.exists() else {}
    try:
        run(arguments, log)
    finally:
        end_server()
    if arguments.write:
        arguments.output.write_text(page.text(log, arguments.precision, arguments.products))


if __name__ == "__main__":
    main()
