"""PyTorch's own samples of its operators (OpInfo) through the back end, and bench/results/opinfo.md of what became of them.

    scripts/test-python --run bench/pytorch/opinfo.py [--operators NAME,…] [--samples N] [--again] [--write]

Of each operator the first samples in f32 (or in what it has) run compiled and eagerly; of the first sample with a
gradient also the gradients. Where the two differ, eager in float64 says who is right. Operators are worked through by
one process, begun again behind the operator at which it ended or hung. The log is build/pytorch/opinfo.json.
"""

import argparse
import json
import pathlib
import select
import subprocess
import sys

from server import ROOT, WORK, end_server, use_own_server

sys.path.insert(0, str(ROOT / "bench"))
import opinfo_page  # noqa: E402
import provenance  # noqa: E402
from run import WORK, end_server, use_own_server  # noqa: E402


def worked_through(names: list, samples: int, seconds: float):
    """Rows of operators as they are done: (name, row). The worker that ends or says nothing for too long is another's."""
    left = list(names)
    while left:
        command = [sys.executable, str(pathlib.Path(__file__).with_name("opinfo_trial.py")), str(samples)]
        with open(WORK / "opinfo.err", "w") as errors:
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        worker.stdin.write("\n".join(left) + "\n")
        worker.stdin.close()
        while left:
            ready, _, _ = select.select([worker.stdout], [], [], seconds)
            line = worker.stdout.readline() if ready else ""
            if not line:
                worker.kill()
                how = f"ended with status {worker.wait()}" if ready else f"not done after {seconds:.0f} s"
                yield left.pop(0), {"error": how}
                break
            yield left.pop(0), json.loads(line)
        worker.kill()
        worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", help="names of OpInfo's, with commas; all by default")
    parser.add_argument("--samples", type=int, default=4, help="of an operator, at most")
    parser.add_argument("--again", action="store_true", help="also what the log has of this commit")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "results" / "opinfo.md")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for one operator")
    parser.add_argument("--log", type=pathlib.Path, default=WORK / "opinfo.json")
    arguments = parser.parse_args()
    use_own_server()
    log = json.loads(arguments.log.read_text()) if arguments.log.exists() else {}
    commit = provenance.commit()
    names = arguments.operators.split(",") if arguments.operators else opinfo_page.names()
    names = [name for name in names if arguments.again or log.get(name, {}).get("commit") != commit]
    try:
        for name, row in worked_through(names, arguments.samples, arguments.timeout):
            log[name] = {"commit": commit, "row": row}
            print(name, opinfo_page.verdict(row), file=sys.stderr, flush=True)
            arguments.log.write_text(json.dumps(log, indent=1))
    finally:
        end_server()
    if arguments.write:
        arguments.output.write_text(opinfo_page.text(log, arguments.samples))


if __name__ == "__main__":
    main()
