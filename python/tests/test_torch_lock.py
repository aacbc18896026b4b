"""Locks: a program runs the plans that a file names, or says what differs."""

import logging
import os
import re

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, fresh, run  # noqa: E402, F401
from test_torch_artifacts import ahead, elsewhere, saved  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _runtime  # noqa: E402
from stitch.torch._options import settings_of  # noqa: E402

# A plan that is tuned in the background may be another one a moment later.
CALM = {**EMULATED, "effort": "none"}

STEP = """
import os
run = torch.compile(model, backend="stitch", options={options!r})
y = run(x)
y.square().sum().backward()
grads = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
right = model(x)
right.square().sum().backward()
torch.testing.assert_close(y, right, rtol=1e-5, atol=1e-5)
for ours, p in zip(grads, model.parameters(), strict=True):
    torch.testing.assert_close(ours, p.grad, rtol=1e-4, atol=1e-4)
assert stitch.torch.wait(120)
report = stitch.torch.report()
"""


def pieces(path) -> list[str]:
    first, *lines = path.read_text().splitlines()
    assert first == "stitch-lock 1"
    return lines


def only_those_of(function, *inputs, options=CALM):
    """Compiles a function, and leaves the process with the slots of its pieces alone."""
    _runtime._slots.clear()
    result = run(function, *inputs, options=options)
    assert stitch.torch.wait(120)
    return result


@pytest.fixture
def lock(tmp_path):
    """The lock of one piece."""
    path = tmp_path / "stitch.lock"
    only_those_of(lambda x: (x * 31.5).tanh(), torch.randn(6))
    assert stitch.torch.write_lock(path) == 1
    torch._dynamo.reset()
    stitch.torch.reset()
    return path


@pytest.fixture
def artifact(lock):
    """That piece's plan, as PyTorch's cache of artifacts has it: no server is asked for it."""
    (slot,) = _runtime._slots.values()
    stitch.torch._artifacts._loaded[slot.key] = slot.content
    _runtime._slots.clear()
    yield
    stitch.torch._artifacts._loaded.pop(slot.key)


def nowhere(tmp_path, **options):
    return {**CALM, "server": f"unix://{tmp_path}/nobody.sock", **options}


def test_equal_plans_give_equal_bytes_in_two_processes(tmp_path):
    script = STEP.format(options=CALM) + "stitch.torch.write_lock(sys.argv[1])\n"
    for name in ("one", "two"):
        elsewhere(script, tmp_path / name, tmp_path=tmp_path, server=None)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    lines = pieces(tmp_path / "one")
    assert len(lines) >= 4 and lines == sorted(lines)
    assert all(re.fullmatch("piece [0-9a-f]{64}  plan [0-9a-f]{32}  code( [0-9a-f]{64})+", line) for line in lines)


def test_a_training_step_runs_what_is_locked_from_saved_plans(tmp_path):
    _runtime._slots.clear()
    content, _ = saved()
    (tmp_path / "artifacts").write_bytes(content)
    stitch.torch.write_lock(tmp_path / "lock")
    script = "torch.compiler.load_cache_artifacts(open(sys.argv[1], 'rb').read())\n"
    script += STEP.format(options={**EMULATED, "lock": str(tmp_path / "lock"), "fallback": "error"})
    script += "assert report['failed'] == [] and report['eager_calls'] == 0, report\n"
    script += "stitch.torch.write_lock(sys.argv[2])\nprint(report['kernel_calls'])\n"
    assert int(elsewhere(script, tmp_path / "artifacts", tmp_path / "again", tmp_path=tmp_path)) >= 4
    assert set(pieces(tmp_path / "again")) <= set(pieces(tmp_path / "lock"))


def test_a_training_step_runs_what_is_locked_from_the_server(tmp_path):
    script = STEP.format(options=CALM) + "stitch.torch.write_lock(sys.argv[1])\n"
    elsewhere(script, tmp_path / "lock", tmp_path=tmp_path, server=None)
    script = STEP.format(options={**EMULATED, "fallback": "error"})
    script += "assert report['failed'] == [] and report['eager_calls'] == 0, report\n"
    script += "stitch.torch.write_lock(sys.argv[1])\n"
    elsewhere(script, tmp_path / "again", tmp_path=tmp_path, server=None, STITCH_LOCK=str(tmp_path / "lock"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "lock").read_bytes()


def test_no_other_plan_takes_the_place_of_a_locked_one(lock, artifact, tmp_path):
    x = torch.randn(6)
    result = only_those_of(lambda x: (x * 31.5).tanh(), x, options=nowhere(tmp_path, lock=lock, effort="full"))
    torch.testing.assert_close(result, (x * 31.5).tanh())
    (slot,) = _runtime._slots.values()
    assert isinstance(slot.plan, stitch.torch._artifacts.SavedPlan)
    report = stitch.torch.report()
    assert report["kernel_calls"] == 1 and report["failed"] == []
    assert settings_of(None, {"lock": lock, "effort": "full"}).tuned == "none"


def changed(lock, pattern, by="0") -> tuple[str, str]:
    """Writes other digits in place of some of the lock's; what the line was and is from `plan` on."""
    (line,) = pieces(lock)
    place = re.search(pattern, line).start(1)
    other = line[:place] + ("1" if line[place] == by else by) + line[place + 1 :]
    lock.write_text(f"stitch-lock 1\n{other}\n")
    return line[line.index("plan") :], other[other.index("plan") :]


@pytest.mark.parametrize("pattern", ["plan (.)", "code (.)"])
def test_another_plan_or_other_code_is_a_miss_that_is_said_once(pattern, lock, artifact, tmp_path, caplog):
    was, wanted = changed(lock, pattern)
    x = torch.randn(6)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for _ in range(2):
            torch._dynamo.reset()
            result = run(lambda x: (x * 31.5).tanh(), x, options=nowhere(tmp_path, lock=lock))
            torch.testing.assert_close(result, (x * 31.5).tanh())
    report = stitch.torch.report()
    assert report["kernel_calls"] == 0 and report["eager_calls"] == 2
    (said,) = [r.getMessage() for r in caplog.records if r.name == "stitch.torch"]
    assert f"{lock}, line 2: expected '{wanted}', found '{was}' for piece " in said
    assert "(aten.mul.Tensor, aten.tanh.default)" in said and "PyTorch runs these operators instead" in said


def test_a_plan_that_the_server_does_not_have_is_a_miss(lock):
    _, wanted = changed(lock, "plan (.)")
    x = torch.randn(6)
    torch.testing.assert_close(run(lambda x: (x * 31.5).tanh(), x, options={**CALM, "lock": lock}), (x * 31.5).tanh())
    report = stitch.torch.report()
    assert f"expected '{wanted}', found no plan of that id" in report["failed"][0]["message"], report


def test_a_piece_that_the_lock_does_not_have_is_a_miss(lock):
    x = torch.randn(6)
    result = run(lambda x: (x * 32.5).sin(), x, options={**CALM, "lock": lock})
    torch.testing.assert_close(result, (x * 32.5).sin())
    report = stitch.torch.report()
    assert report["kernel_calls"] == 0 and report["eager_calls"] == 1
    (failed,) = report["failed"]
    assert re.search(r"stitch.lock does not have piece [0-9a-f]{64} \(aten.mul.Tensor, aten.sin", failed["message"])


def test_a_miss_is_an_error_on_request(lock, artifact, tmp_path):
    strict = nowhere(tmp_path, lock=lock, fallback="error", deadline_ms=0)
    x = torch.randn(6)
    torch.testing.assert_close(run(lambda x: (x * 31.5).tanh(), x, options=strict), (x * 31.5).tanh())
    with pytest.raises(Exception, match="stitch.lock does not have piece"):
        run(lambda x: (x * 33.5).exp(), x, options=strict)
    torch._dynamo.reset()
    changed(lock, "plan (.)")
    with pytest.raises(Exception, match="stitch.lock, line 2: expected 'plan .*, found 'plan "):
        run(lambda x: (x * 31.5).tanh(), x, options=strict)


def test_extents_that_the_lock_does_not_have_are_an_error_on_request(tmp_path):
    path = tmp_path / "stitch.lock"
    function = lambda x: (x * 34.5).sum(0)  # noqa: E731
    x = torch.randn(6, 3)
    torch._dynamo.mark_dynamic(x, 0)
    only_those_of(function, x)
    stitch.torch.write_lock(path)
    torch._dynamo.reset()
    for slot in _runtime._slots.values():
        stitch.torch._artifacts._loaded[slot.key] = slot.content
    _runtime._slots.clear()
    locked = torch.compile(function, backend="stitch", options=nowhere(tmp_path, lock=path, fallback="error"))
    torch.testing.assert_close(locked(x), function(x))
    with pytest.raises(stitch.ConstraintError, match="does not have piece"):
        for _ in range(2):  # the first asks
            locked(torch.randn(7, 3))
            assert stitch.torch.wait(120)


def test_a_function_compiled_ahead_takes_its_lock_along(lock, artifact, ahead, tmp_path):  # noqa: F811
    function = torch.compile(
        lambda x: (x * 31.5).tanh(), backend="stitch", fullgraph=True, options=nowhere(tmp_path, lock=lock)
    )
    x = torch.randn(6)
    function.aot_compile(((x,), {})).save_compiled_function(str(tmp_path / "function.pt"))
    os.unlink(lock)
    script = """
with open(sys.argv[1], "rb") as file:
    ahead = torch.compiler.load_compiled_function(file)
x = torch.randn(6)
torch.testing.assert_close(ahead(x), (x * 31.5).tanh())
print(stitch.torch.report()["kernel_calls"])
"""
    assert elsewhere(script, tmp_path / "function.pt", tmp_path=tmp_path) == "1"


@pytest.mark.parametrize(
    "text, error, message",
    [
        (None, ValueError, r"lock .*stitch.lock: No such file"),
        ("", ValueError, r"stitch.lock, line 1: no lock of Stitch's"),
        ("stitch-lock 2\n", stitch.CompatibilityError, r"stitch.lock, line 1: 'stitch-lock 2', 'stitch-lock 1'"),
        ("stitch-lock 1\nprogram 12  x\n", ValueError, r"stitch.lock, line 2: expected 'piece KEY  plan ID  code"),
        (f"stitch-lock 1\npiece {'a' * 64}  plan {'b' * 31}  code\n", ValueError, r"stitch.lock, line 2: expected"),
        ("stitch-lock 1\n" + f"piece {'a' * 64}  plan {'b' * 32}  code {'c' * 64}\n" * 2, ValueError,
         r"stitch.lock, line 3: piece a{64} stands in line 2"),
    ],
)  # fmt: skip
def test_a_lock_that_cannot_be_read_is_an_error_with_its_place(text, error, message, tmp_path, monkeypatch):
    path = tmp_path / "stitch.lock"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        settings_of(None, {"lock": path})
    with pytest.raises(Exception, match=message):
        run(lambda x: x * 35.5, torch.randn(4), options={**CALM, "lock": str(path)})
    monkeypatch.setenv("STITCH_LOCK", str(path))
    with pytest.raises(error, match=message):
        settings_of(None, None)


def test_a_lock_is_a_files_path():
    with pytest.raises(ValueError, match="option 'lock': expected a file's path, found 3"):
        settings_of(None, {"lock": 3})


def test_the_users_file_may_name_a_lock(lock, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text(f'[torch]\nlock = "{lock}"\n')
    monkeypatch.setenv("STITCH_CONFIG", str(tmp_path / "config.toml"))
    assert settings_of(None, None).lock.path == str(lock)
    monkeypatch.setenv("STITCH_LOCK", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="other: No such file"):
        settings_of(None, None)


def test_fingerprints_tell_plans_apart(fresh, tmp_path):  # noqa: F811
    def functions(x):
        return torch.softmax(x, -1) * 2

    x = torch.randn(4, 24)
    only_those_of(functions, x)
    first = stitch.torch.fingerprint()
    assert first == stitch.torch.fingerprint() and len(first) == 64
    (slot,) = _runtime._slots.values()
    there, slot.plan = slot.plan, None
    assert stitch.torch.fingerprint() != first
    slot.plan = there
    torch._dynamo.reset()
    only_those_of(functions, x)
    assert stitch.torch.fingerprint() == first, "the same piece, compiled again"
    only_those_of(lambda x: x.exp() + 1, x)
    assert stitch.torch.fingerprint() != first
