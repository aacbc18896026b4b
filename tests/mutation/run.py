#!/usr/bin/env python3
"""Changes one line at a time in a copy of the repository and asks whether the tests notice.

mutations.json lists the changes to code generation, kernel IR and verification: a file, a text that stands in it once,
and what takes its place. Each is made in a scratch copy, where only what it touches is built again, and CI's test
programs run in the order below until one fails. A mutation that none notices is a test that is missing.

    tests/mutation/run.py --check                    the list alone: every text is there, exactly once
    tests/mutation/run.py --scratch DIR              all of it, and bench/results/mutation.md
    tests/mutation/run.py --scratch DIR --count 20   at most 20 that DIR/results.json does not have yet
    tests/mutation/run.py --scratch DIR --lock FILE  each build holds the lock, for machines that are shared
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/mutation/mutations.json"
# Quick ones first; the last runs some random kernels of one seed, so that a run can be repeated.
TESTS = [
    ("kernel_test", []),
    ("golden_test", []),
    ("codegen_test", []),
    ("profiler_test", ["--gtest_filter=-*Gpu*:*Runner*"]),
    ("tuning_test", ["--gtest_filter=Contraction*Emulated.*"]),
    ("lab_test", ["--gtest_filter=*Breadth*-Ranges/*"]),
    ("lab_test", ["--gtest_filter=Ranges/BreadthEmulated.*/0:Ranges/BreadthEmulated.*/1"]),
]
SEED = "1"  # CI's
TARGETS = sorted({name for name, _ in TESTS})
SHARES = os.cpu_count() or 1
# A test program that takes longer hangs: a barrier that one thread does not reach.
SECONDS = 900


def problems(mutations):
    for number, each in enumerate(mutations):
        path = ROOT / each["file"]
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        count = text.count(each["original"])
        if count != 1:
            yield f"mutation {number}: {each['file']} has its text {count} times: {each['original']}"
        if each["original"] == each["replacement"] or "\n" in each["original"] + each["replacement"]:
            yield f"mutation {number}: not a change of one line: {each['original']}"
    if len({(each["file"], each["original"]) for each in mutations}) != len(mutations):
        yield "a text is listed twice"


class Copy:
    def __init__(self, scratch, lock):
        self.source, self.build, self.lock = scratch / "source", scratch / "source/build/mutation", lock

    def prepare(self):
        if not self.source.exists():
            run(["git", "-C", ROOT, "worktree", "add", "--detach", self.source, "HEAD"])
        run(["git", "-C", self.source, "checkout", "--quiet", "--force", commit()])
        # Batches, but for the layers that are changed: one source of those is built again for each mutation.
        run(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DSTITCH_UNITY=ON", "-DSTITCH_BENCHMARKS=OFF",
             "-DSTITCH_SINGLE_SOURCES=stitch_kernel;stitch_codegen;stitch_profiler"])

    def compile(self):
        with open(self.lock, "a", encoding="utf-8") if self.lock else open("/dev/null", "a", encoding="utf-8") as file:
            if self.lock:
                fcntl.flock(file, fcntl.LOCK_EX)
            return subprocess.run(["ninja", "-C", self.build, *TARGETS], capture_output=True, text=True, check=False)

    def failing_test(self):
        """What notices: the program and its first failing test; None if nothing does."""
        return next(filter(None, (self.failure_of(program, options) for program, options in TESTS)), None)

    def failure_of(self, program, options):
        """The program's tests, a share on each core, until one of them fails."""
        command = [self.build / "bin" / program, "--gtest_brief=1", "--gtest_fail_fast", *options]
        with contextlib.ExitStack() as stack:
            shares = []
            for share in range(SHARES):
                output = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
                environment = {**os.environ, "STITCH_BREADTH_SEED": SEED, "GTEST_TOTAL_SHARDS": str(SHARES),
                               "GTEST_SHARD_INDEX": str(share)}
                running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
                stack.callback(running.wait)
                stack.callback(running.kill)
                shares.append((running, output))
            end = time.monotonic() + SECONDS
            while any(running.poll() is None for running, _ in shares):
                if any(running.poll() for running, _ in shares):
                    break
                if time.monotonic() > end:
                    return f"{program} (hangs)"
                time.sleep(0.1)
            for running, output in shares:
                if running.poll():
                    output.seek(0)
                    failed = [line.split("]", 1)[1].split(",")[0].split(" (")[0].strip()
                              for line in output if line.startswith("[  FAILED  ]")]
                    return f"{program}: {failed[0]}" if failed else f"{program} (exit {running.returncode})"
        return None


def run(command):
    subprocess.run([str(part) for part in command], check=True)


def commit():
    """Of the sources that are changed and the tests that are to notice."""
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True,
                          check=True).stdout.strip()


def try_mutation(copy, each):
    path = copy.source / each["file"]
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(each["original"], each["replacement"]), encoding="utf-8")
    try:
        built = copy.compile()
        if built.returncode != 0:
            return {"outcome": "does not compile", "by": built.stdout[-400:]}
        noticed = copy.failing_test()
        return {"outcome": "caught" if noticed else "survived", "by": noticed or ""}
    finally:
        path.write_text(original, encoding="utf-8")


def name_of(each):
    """What a result is kept under: the mutation itself, so that results outlive changes of the list."""
    return " | ".join((each["file"], each["original"], each["replacement"]))


def page(mutations, kept):
    results = [kept[name_of(each)] for each in mutations if name_of(each) in kept]
    counts = {}
    for result in results:
        counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
    lines = ["# Mutations", "",
             f"Written by `tests/mutation/run.py` on {datetime.date.today()} at {commit()[:12]}: one line of code "
             "generation, kernel IR or verification changed at a time, and which of CI's tests notices first.", "",
             f"{len(mutations)} listed, {len(results)} tried: "
             + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) + ".", "",
             "| file | text | becomes | outcome | by |", "|---|---|---|---|---|"]
    code = lambda text: "`` " + text.replace("|", "\\|") + " ``"
    for each in mutations:
        result = kept.get(name_of(each), {"outcome": "not tried", "by": ""})
        lines.append(f"| {each['file']} | {code(each['original'])} | {code(each['replacement'])} | "
                     f"{result['outcome']} | {result['by'].splitlines()[0] if result['by'] else ''} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look whether the list fits the sources")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the copy, its build and the results so far")
    parser.add_argument("--count", type=int, default=1 << 30, help="how many are tried, of those without a result")
    parser.add_argument("--lock", help="a file that is locked during each build")
    options = parser.parse_args()
    mutations = json.loads(LIST.read_text(encoding="utf-8"))
    found = list(problems(mutations))
    for problem in found:
        print(problem)
    if options.check or found:
        return 1 if found else 0
    if options.scratch is None:
        parser.error("--scratch says where")
    options.scratch.mkdir(parents=True, exist_ok=True)
    file = options.scratch / "results.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    left = [(number, each) for number, each in enumerate(mutations) if name_of(each) not in kept]
    copy = Copy(options.scratch.resolve(), options.lock)
    copy.prepare()
    built = copy.compile()
    if built.returncode != 0:
        sys.exit(built.stdout[-4000:])
    sound = options.scratch / "sound"  # the commit whose tests pass without any mutation
    if not sound.exists() or sound.read_text(encoding="utf-8") != commit():
        if (noticed := copy.failing_test()) is not None:
            sys.exit(f"without any mutation {noticed} fails")
        sound.write_text(commit(), encoding="utf-8")
    for number, each in left[: options.count]:
        begin = time.monotonic()
        result = kept[name_of(each)] = {**try_mutation(copy, each), "commit": commit()[:12]}
        file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        (ROOT / "bench/results/mutation.md").write_text(page(mutations, kept), encoding="utf-8")
        print(f"{number}: {result['outcome']} {result['by'][:100]} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 0 if all(kept.get(name_of(each), {}).get("outcome") == "caught" for each in mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
