"""What goes wrong around the back end must not break the program that it is in."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from conftest import damage_artifacts, settled  # noqa: E402
from test_server import end, own  # noqa: E402, F401
from test_torch import EMULATED, fresh, run  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _runtime  # noqa: E402


def result_of_child(function, seconds=60) -> str:
    """What a function returns, or raises, in a forked child; "hangs" where that takes too long."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(function()).encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    last = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > last:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs"
        time.sleep(0.01)
    return os.read(reader, 1 << 16).decode()


def test_a_forked_child_compiles_and_runs_what_its_parent_compiled():
    options = {**EMULATED, "deadline_ms": 30_000}
    parents = torch.compile(lambda x: x * 6.5, backend="stitch", options=options)
    x = torch.randn(8)
    parents(x)

    def child():
        stitch.torch.reset()
        torch.testing.assert_close(run(lambda x: (x * 7.5).exp(), x, options=options), (x * 7.5).exp())
        torch.testing.assert_close(parents(x), x * 6.5)  # asks for its own plan
        assert stitch.torch.wait(30)
        torch.testing.assert_close(parents(x), x * 6.5)
        return [stitch.torch.report()[name] for name in ("kernel_calls", "eager_calls", "failed")]

    assert result_of_child(child) == "[2, 1, []]"
    torch.testing.assert_close(parents(x), x * 6.5)
    assert stitch.torch.report()["kernel_calls"] == 2


def test_a_fork_takes_no_lock_along():
    function = torch.compile(lambda x: x * 8.5, backend="stitch", options={**EMULATED, "deadline_ms": 30_000})
    x = torch.randn(8)
    function(x)
    with _runtime._lock, stitch.torch._report._lock, stitch._server._lock:
        assert result_of_child(lambda: function(x).equal(x * 8.5) and stitch.torch.wait(30)) == "True"


def test_a_server_that_ended_is_started_by_the_next_compilation(own):  # noqa: F811
    for scale in (9.5, 10.5):
        x = torch.randn(4)
        torch.testing.assert_close(run(lambda x: x * scale, x), x * scale)
        end(own)
        torch._dynamo.reset()
    report = stitch.torch.report()
    assert report["kernel_calls"] == 2 and report["failed"] == []


def test_damaged_code_of_one_piece_is_no_dead_server(own, caplog):  # noqa: F811
    """The daemon finds it when it is asked for: that piece alone stays PyTorch's, said once; then it is made again."""
    x = torch.randn(6)
    torch.testing.assert_close(run(lambda x: (x * 31.5).cos(), x), (x * 31.5).cos())
    settled(own)
    damaged = damage_artifacts(own)
    assert damaged > 0
    torch._dynamo.reset()
    stitch.torch.reset()
    again = {**EMULATED, "max_workspace_bytes": 1 << 30}  # a slot that has not asked yet
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        torch.testing.assert_close(run(lambda x: (x * 31.5).cos(), x, options=again), (x * 31.5).cos())
        assert not _runtime.is_dead(None)
        torch.testing.assert_close(run(lambda x: (x * 32.5).sin(), x, options=again), (x * 32.5).sin())
    report = stitch.torch.report()
    assert (report["eager_calls"], report["kernel_calls"]) == (1, 1)
    (entry,) = report["failed"]
    assert (entry["kind"], entry["count"]) == ("plan: corrupt", 1) and "makes it again" in entry["message"]
    assert len(said_of(caplog)) == 1
    settled(own)  # the job is done
    torch._dynamo.reset()
    torch.testing.assert_close(run(lambda x: (x * 31.5).cos(), x, options=again), (x * 31.5).cos())
    report = stitch.torch.report()
    assert report["kernel_calls"] == 2, report["failed"]


def test_a_server_that_was_killed_costs_one_warning_with_its_reason(own, monkeypatch, caplog):  # noqa: F811
    monkeypatch.setenv("STITCH_START", "0")
    monkeypatch.setattr(_runtime, "_dead", {})
    stitch.connect(start=True)
    x = torch.randn(4)
    torch.testing.assert_close(run(lambda x: x * 33.5, x), x * 33.5)
    end(own)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for scale in (34.5, 35.5):
            torch._dynamo.reset()
            torch.testing.assert_close(run(lambda x: x * scale, x), x * scale)
    (said,) = said_of(caplog)
    assert "no stitchd at" in said and "PyTorch runs these operators instead" in said
    assert _runtime.is_dead(None)
    report = stitch.torch.report()
    assert (report["kernel_calls"], report["eager_calls"]) == (1, 2)
    assert [(entry["kind"], entry["count"]) for entry in report["failed"]] == [("unavailable", 2)]


def there_is_a_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("place", "why"),
    [
        pytest.param(("cuda", 0), "no CUDA driver", marks=pytest.mark.skipif(there_is_a_driver(), reason="a driver")),
        (("emulated", 7), "one emulated device"),
    ],
    ids=["driver", "device"],
)
def test_a_device_that_is_not_there_is_no_dead_server(place, why, monkeypatch, caplog):
    """Its pieces alone stay PyTorch's; what is asked for on another device is served as ever."""
    x = torch.randn(4)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(_runtime, "_place", lambda device: place)
            for scale in (36.5, 37.5):
                torch._dynamo.reset()
                torch.testing.assert_close(run(lambda x: x * scale, x), x * scale)
        assert not _runtime.is_dead(None)
        torch._dynamo.reset()
        torch.testing.assert_close(run(lambda x: x * 38.5, x), x * 38.5)
    (said,) = said_of(caplog)
    assert why in said and "PyTorch runs these operators instead" in said
    report = stitch.torch.report()
    assert (report["kernel_calls"], report["eager_calls"]) == (1, 2)
    assert [(entry["kind"], entry["count"]) for entry in report["failed"]] == [("device: emulated", 2)]


def test_what_a_living_server_lacks_is_no_dead_server(monkeypatch, caplog):
    """A server that is about to end, say: it answers, and what it can it does."""
    x = torch.randn(4)
    ask = stitch._server.Shared.plan

    def lacks(*arguments, **settings):
        raise stitch.Unavailable("the server is shutting down")

    monkeypatch.setattr(stitch._server.Shared, "plan", lacks)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        torch.testing.assert_close(run(lambda x: x * 39.5, x), x * 39.5)
        monkeypatch.setattr(stitch._server.Shared, "plan", ask)
        torch._dynamo.reset()
        torch.testing.assert_close(run(lambda x: x * 40.5, x), x * 40.5)
    (said,) = said_of(caplog)
    assert "the server is shutting down" in said
    report = stitch.torch.report()
    assert report["kernel_calls"] == 1 and [entry["kind"] for entry in report["failed"]] == ["plan: unavailable"]


def test_of_a_busy_server_the_plan_is_asked_for_again(monkeypatch):
    ask, asked = stitch._server.Shared.plan, []

    def busy(*arguments, **settings):
        asked.append(time.monotonic())
        if len(asked) < 3:
            raise stitch.Timeout("no plan within 60 s")
        return ask(*arguments, **settings)

    monkeypatch.setattr(stitch._server.Shared, "plan", busy)
    x = torch.randn(4)
    torch.testing.assert_close(run(lambda x: x * 43.5, x), x * 43.5)
    report = stitch.torch.report()
    assert len(asked) == 3 and report["kernel_calls"] == 1 and report["failed"] == [], report


def test_a_server_that_does_not_answer_is_not_waited_for_by_graphs_with_random_numbers(monkeypatch):
    """They are compiled with PyTorch's numbers, and run; once there is a server others have ours."""
    connect, answering, asking = stitch._server.connect, threading.Event(), []

    def silent(*arguments, **settings):
        asking.append(threading.current_thread())
        assert answering.wait(60)
        return connect(*arguments, **settings)

    monkeypatch.setattr(stitch._server, "connect", silent)
    monkeypatch.setattr(stitch._server, "_clients", {})
    monkeypatch.setattr(_runtime, "_probes", {})
    options = {**EMULATED, "deadline_ms": 0}

    def drawn(scale, options=options):
        torch._dynamo.reset()
        torch.manual_seed(5)
        return run(lambda x: torch.nn.functional.dropout(x * scale, 0.5), torch.ones(64), options=options)

    try:
        for scale in (44.5, 45.5):
            ours = drawn(scale)
            torch.manual_seed(5)
            torch.testing.assert_close(ours, torch.nn.functional.dropout(torch.ones(64) * scale, 0.5))
        assert asking and threading.main_thread() not in asking
        assert [entry["op"] for entry in stitch.torch.report()["fell_back"]] == ["aten.bernoulli.p"]
    finally:
        answering.set()
    assert stitch.torch.wait(60)
    stitch.torch.reset()
    drawn(46.5, EMULATED)
    report = stitch.torch.report()
    assert report["fell_back"] == [] and report["kernel_calls"] > 0, report


def test_what_is_asked_for_meanwhile_keeps_no_server_dead(tmp_path):
    server = f"unix://{tmp_path}/nobody.sock"
    since = []
    for scale in (41.5, 42.5):
        x = torch.randn(4)
        torch._dynamo.reset()
        torch.testing.assert_close(run(lambda x: x * scale, x, options={**EMULATED, "server": server}), x * scale)
        since.append(_runtime._dead[server])
    assert since[0] == since[1]
    assert stitch.torch.report()["failed"][0]["count"] == 2


@pytest.mark.parametrize("fault", [TypeError("no DLPack"), MemoryError("no room"), stitch.KernelError("a fault")])
def test_any_fault_of_a_plan_leaves_it_to_pytorch_and_is_said_once(fault, monkeypatch, caplog):
    function = torch.compile(lambda x: x * 11.5, backend="stitch", options=EMULATED)
    x = torch.randn(4)
    function(x)

    def fails(slot, inputs, outputs, device):
        raise fault

    monkeypatch.setattr(_runtime, "_run_on_host", fails)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for _ in range(2):
            torch.testing.assert_close(function(x), x * 11.5)
    said = [r.getMessage() for r in caplog.records if r.name == "stitch.torch"]
    assert len(said) == 1 and str(fault) in said[0] and "PyTorch runs these operators instead" in said[0]


def said_of(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "stitch.torch"]


# Outermost rows are taken in parts, others appended to.
@pytest.mark.parametrize(
    ("where", "dynamic"),
    [("_runtime._dense", 0), ("_rows.part", 0), ("_rows.padded", 1), ("_rows.cut", 1), ("_shapes.extents_of", 0)],
)
def test_any_fault_around_a_plan_leaves_it_to_pytorch_and_is_said_once(where, dynamic, monkeypatch, caplog):
    def input_of(rows):
        return torch.randn((rows, 6) if dynamic == 0 else (6, rows))

    function = torch.compile(lambda x: (x * 13.5).sin(), backend="stitch", options=EMULATED)
    x = input_of(4)
    torch._dynamo.mark_dynamic(x, dynamic)
    torch.testing.assert_close(function(x), (x * 13.5).sin())

    def fails(*given):
        raise TypeError(f"a fault of {where}")

    module, name = where.split(".")
    monkeypatch.setattr(getattr(stitch.torch, module), name, fails)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for rows in (7, 7, 6):
            x = input_of(rows)
            torch.testing.assert_close(function(x), (x * 13.5).sin())
            assert stitch.torch.wait(120)
    (said,) = said_of(caplog)
    assert f"a fault of {where}" in said and "PyTorch runs these operators instead" in said


def test_a_lack_of_memory_is_pytorchs_error(monkeypatch):
    function = torch.compile(lambda x: x * 14.5, backend="stitch", options=EMULATED)
    x = torch.randn(4)
    function(x)

    def lacks(tensor):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(_runtime, "_dense", lacks)
    with pytest.raises(torch.OutOfMemoryError):
        function(x)
    monkeypatch.undo()
    function(x)
    report = stitch.torch.report()
    assert report["kernel_calls"] == 2 and report["failed"] == []


@pytest.mark.parametrize("dynamic", [None, True])
def test_tensors_without_memory_are_pytorchs(dynamic, caplog):
    from torch._subclasses.fake_tensor import FakeTensorMode

    function = torch.compile(lambda x: (x * 15.5).exp() + 1, backend="stitch", dynamic=dynamic, options=EMULATED)
    x = torch.randn(4, 6)
    function(x)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert function(mode.from_tensor(x)).shape == (4, 6)
            assert function(x).shape == (4, 6)
        zeros = torch._efficientzerotensor((4, 6))
        torch.testing.assert_close(function(zeros), torch.full((4, 6), 2.0))
    (said,) = said_of(caplog)
    assert "stand for others" in said
    before = stitch.torch.report()["kernel_calls"]
    torch.testing.assert_close(function(x), (x * 15.5).exp() + 1)
    assert stitch.torch.report()["kernel_calls"] == before + 1, "other calls have their plan"


@pytest.mark.parametrize("options", [EMULATED, {**EMULATED, "random": "eager"}])
def test_batches_of_gradients_are_those_of_single_ones(options):
    function = torch.compile(
        lambda x: torch.nn.functional.dropout((x * 1.5).exp().softmax(-1), 0.5), backend="stitch", options=options
    )
    x = torch.randn(4, 6, requires_grad=True)
    y = function(x)
    of = torch.randn(3, 4, 6)
    (batched,) = torch.autograd.grad(y, x, of, is_grads_batched=True, retain_graph=True)
    singles = [torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in of]
    torch.testing.assert_close(batched, torch.stack(singles))


def test_tangents_are_pytorchs():
    from torch.autograd import forward_ad

    function = torch.compile(lambda x: (x * 16.5).sin(), backend="stitch", options=EMULATED)
    x = torch.randn(4)
    function(x)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones(4)))).tangent
    torch.testing.assert_close(tangent, (x * 16.5).cos() * 16.5)
    function(x)
    report = stitch.torch.report()
    assert report["kernel_calls"] == 2 and "tangents" in report["failed"][0]["message"]


def test_extents_that_are_hidden_from_compilation_are_pytorchs(caplog):
    function = torch.compile(lambda x: (x * 18.5).softmax(-1) + 1, backend="stitch", options=EMULATED)
    for rows in (5, 6, 1):
        x = torch.randn(rows, 8)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        torch.testing.assert_close(function(x), (x * 18.5).softmax(-1) + 1)
    report = stitch.torch.report()
    assert (report["graphs"], report["kernel_calls"], report["failed"]) == (1, 0, [])
    assert any("extents that are known only when it runs" in said for said in said_of(caplog))


def test_plans_may_be_asked_for_while_somebody_waits(monkeypatch):
    class Guarded(type(_runtime._unfinished)):
        def __iter__(self):
            assert _runtime._lock.locked(), "who adds to it meanwhile has iteration fail"
            return super().__iter__()

    monkeypatch.setattr(_runtime, "_unfinished", Guarded())
    x = torch.randn(4)
    torch.testing.assert_close(run(lambda x: x * 17.5, x), x * 17.5)
    assert stitch.torch.wait(120)


def test_an_interrupt_is_the_users(monkeypatch):
    function = torch.compile(lambda x: x * 12.5, backend="stitch", options=EMULATED)
    x = torch.randn(4)
    function(x)

    def interrupted(slot, inputs, outputs, device):
        raise KeyboardInterrupt

    monkeypatch.setattr(_runtime, "_run_on_host", interrupted)
    with pytest.raises(KeyboardInterrupt):
        function(x)


def test_nothing_is_said_when_a_program_ends(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, stitch.torch\n"
        f"run = torch.compile(lambda x: (x * 2).exp(), backend='stitch', options={EMULATED!r})\n"
        "assert run(torch.ones(4)).shape == (4,) and stitch.torch.report()['kernel_calls'] == 1\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "") and "leaked" not in done.stderr, done.stderr


STOPPED = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
import torch, stitch, stitch.torch
import daemons

def stop():
    for server in daemons.servers(os.environ["XDG_RUNTIME_DIR"]):
        daemons.stop(server)

stitch.connect()
torch.compile(lambda x: x * 2, backend="eager")(torch.ones(2))  # what is slow at first is no wait for a server
if sys.argv[2] == "when it is first asked":
    stop()
for scale in (1.5, 2.5, 3.5, 4.5, 5.5):
    torch._dynamo.reset()
    x = torch.randn(4)
    run = torch.compile(lambda x: (x * scale).sin(), backend="stitch", options={"device": "emulated"})
    torch.testing.assert_close(run(x), (x * scale).sin())
    if sys.argv[2] == "later" and scale == 1.5:
        assert stitch.torch.wait(120)
        stop()
# Several plans are asked for, some of which nobody has begun to fetch.
assert sum(thread.name.startswith("stitch-fetch") for thread in threading.enumerate()) == 2
print(stitch.torch.report()["eager_calls"])
"""


@pytest.mark.parametrize("when", ["when it is first asked", "later"])
def test_a_program_ends_although_its_server_does_not_answer(when, own, tmp_path):  # noqa: F811
    """A server that was stopped, say, is there and says nothing: what is asked of it is answered after minutes of
    timeouts, for which nobody waits at the end; nor is anything said then."""
    script = tmp_path / "program.py"
    script.write_text(STOPPED)
    command = [sys.executable, script, os.path.dirname(__file__), when]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4 and "stitch" not in done.stderr, done.stderr


def test_pytorchs_traces_and_logs_have_our_plans(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, stitch.torch\n"
        f"torch.compile(lambda x: (x * 3).exp(), backend='stitch', options={EMULATED!r})(torch.ones(5))\n"
    )
    environment = dict(os.environ, TORCH_TRACE=str(tmp_path / "trace"), TORCH_LOGS="stitch.torch")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pieces of ours in a graph: [{" in done.stderr
    text = "".join(file.read_text() for file in (tmp_path / "trace").glob("*.log"))
    assert '"stitch_plans"' in text and '"launches": 1' in text
    _, _, report = text.partition('"stitch_report"')
    assert '"graphs": 1' in report and '"share": 1.0' in report


@pytest.mark.parametrize("version", ["2.9.1", "2.10.0+cpu", "1.13"])
def test_an_older_pytorch_is_told_by_its_version(version):
    program = (
        f"import torch; torch.__version__ = {version!r}\n"
        "try:\n    import stitch.torch\nexcept ImportError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == f"stitch.torch needs PyTorch 2.11 or later, and this is {version}: pip install 'torch>=2.11'\n"
