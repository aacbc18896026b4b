"""What outlives the process: torch.compiler's cache of artifacts, and aot_compile."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from test_program import of_another_version, with_other_code  # noqa: E402
from test_torch import EMULATED, Block, fresh, run  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _artifacts, _runtime  # noqa: E402

COMMON = f"""
import sys, torch, stitch.torch
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_torch import Block, Mlp
torch.manual_seed(7)
model = Block()
x = torch.randn(2, 5, 16)
"""


def elsewhere(script: str, *arguments, tmp_path, server="unix://{}/nobody.sock", **variables) -> str:
    """What a script prints in a fresh process that has no server (`server=None`: the session's)."""
    environment = {**os.environ, **variables, **({"STITCH_SERVER": server.format(tmp_path)} if server else {})}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + script, *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


def saved() -> bytes:
    """A training step's artifacts, and its gradient's sum where `elsewhere` makes it too."""
    torch.compiler._cache.CacheArtifactManager.clear()
    for slot in _runtime._slots.values():
        slot.recorded = False
    torch.manual_seed(7)
    model, x = Block(), torch.randn(2, 5, 16)
    torch.compile(model, backend="stitch", options=EMULATED)(x).square().sum().backward()
    assert stitch.torch.wait(120)
    assert stitch.torch.report()["failed"] == []
    return torch.compiler.save_cache_artifacts()


def test_a_fresh_process_has_its_plans_from_pytorchs_artifacts(tmp_path):
    content, info = saved()
    assert len(info.stitch_artifacts) >= 4
    (tmp_path / "artifacts").write_bytes(content)
    script = f"""
info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
run = torch.compile(model, backend="stitch", options={EMULATED!r})
y = run(x)
y.square().sum().backward()
report = stitch.torch.report()
assert report["failed"] == [] and report["eager_calls"] == 0, report
torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)
print(len(info.stitch_artifacts), report["kernel_calls"])
"""
    loaded, calls = elsewhere(script, tmp_path / "artifacts", tmp_path=tmp_path).split()
    assert int(loaded) == len(info.stitch_artifacts) and int(calls) >= 4


def test_an_artifact_that_was_tampered_with_is_not_opened(caplog):
    function = torch.compile(lambda x: (x * 21.5).exp(), backend="stitch", options=EMULATED)
    x = torch.randn(6)
    function(x)
    (slot,) = [slot for slot in _runtime._slots.values() if slot.plan and "21.5" in slot._wanted[0]]
    for place in (5, len(slot.content) // 2, -9):
        wrong = bytearray(slot.content)
        wrong[place] ^= 0x40
        _artifacts.PlanArtifact(slot.key, bytes(wrong)).populate_cache()
        try:
            found = _artifacts.find(slot.key, ("emulated", 0), None)
        finally:
            _artifacts._loaded.pop(slot.key, None)
        assert found is None, place
    assert "a saved plan is not used" in caplog.text


def in_its_program(change):
    """What is behind the line that says what it is."""

    def changed(content: bytes) -> bytes:
        head, _, document = content.partition(b"\n")
        return head + b"\n" + change(document)

    return changed


REFUSED = {
    "stale": (in_its_program(of_another_version), "program of version 23 of the format; this Stitch reads 1 to 3"),
    "truncated": (lambda content: content[:-100], "CBOR"),
    "tampered with": (in_its_program(with_other_code), "is not the hash of its bytes"),
    "foreign": (in_its_program(lambda document: b"PK\x03\x04, and no program"), "CBOR"),
    "empty": (lambda content: b"", "does not say what it is"),
}


@pytest.mark.parametrize("served", [False, True], ids=["no server", "a server"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_saved_plan_that_must_not_run_is_refused_with_the_reason(what, served, tmp_path, monkeypatch, caplog):
    """PyTorch runs where no server answers; the server's plan where one does."""
    change, said = REFUSED[what]
    x = torch.randn(6)
    torch.testing.assert_close(run(lambda x: (x * 1.255).exp(), x), (x * 1.255).exp())
    (slot,) = [slot for slot in _runtime._slots.values() if slot.plan and "1.255" in slot._wanted[0]]
    monkeypatch.setattr(_artifacts, "_loaded", {slot.key: change(slot.content)})
    monkeypatch.setattr(_runtime, "_slots", {})
    monkeypatch.setattr(_runtime, "_dead", {})
    options = EMULATED if served else {**EMULATED, "server": f"unix://{tmp_path}/nobody.sock"}
    torch._dynamo.reset()
    stitch.torch.reset()
    torch.testing.assert_close(run(lambda x: (x * 1.255).exp(), x, options=options), (x * 1.255).exp())
    report = stitch.torch.report()
    assert (report["kernel_calls"], report["eager_calls"]) == ((1, 0) if served else (0, 1))
    (refused,) = report["refused"]
    assert said in refused["message"] and refused["message"] in caplog.text
    assert [entry["kind"] for entry in report["failed"]] == ([] if served else ["unavailable"])


TAMPERED = f"""
info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
model = model.requires_grad_(False)
run = torch.compile(model, backend="stitch", options={EMULATED!r})
torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
report = stitch.torch.report()
print(len(info.stitch_artifacts) if info else 0, sum(entry["count"] for entry in report["refused"]), report["kernel_calls"], report["eager_calls"])
print(*(entry["message"] for entry in report["refused"] + report["failed"]), sep="; ")
"""


def changed(content: bytes) -> bytes:
    """With another bit in its middle."""
    wrong = bytearray(content)
    wrong[len(wrong) // 2] ^= 0x10
    return bytes(wrong)


@pytest.mark.parametrize("served", [False, True], ids=["no server", "a server"])
def test_saved_plans_that_were_changed_are_refused_and_the_results_are_right(served, tmp_path, monkeypatch):
    """PyTorch's own path where no server answers, plans from the server where one does."""
    saved()
    torch.compiler._cache.CacheArtifactManager.clear()
    for slot in _runtime._slots.values():
        if slot.content is not None:  # changed before PyTorch has it, whose releases find in a file what was changed later
            monkeypatch.setattr(slot, "content", changed(slot.content))
            monkeypatch.setattr(slot, "recorded", False)
    _runtime.record()
    (tmp_path / "artifacts").write_bytes(torch.compiler.save_cache_artifacts()[0])
    where = {"server": None} if served else {}
    counts, reasons = elsewhere(TAMPERED, tmp_path / "artifacts", tmp_path=tmp_path, **where).split("\n")
    loaded, refused, ours, eager = map(int, counts.split())
    assert loaded >= 4 and refused >= 2
    assert (ours > 0, eager > 0) == (served, not served), counts
    assert "hash" in reasons, reasons


@pytest.mark.parametrize("served", [False, True], ids=["no server", "a server"])
def test_plans_of_a_function_compiled_ahead_that_were_changed_are_refused(served, ahead, tmp_path):
    with torch.no_grad():
        compiled_ahead(tmp_path / "model.pt")
    data = (tmp_path / "model.pt").read_bytes()
    contents = {slot.content for slot in _runtime._slots.values() if slot.content and slot.content in data}
    assert contents
    for content in contents:
        data = data.replace(content, changed(content))
    (tmp_path / "model.pt").write_bytes(data)
    script = """
with open(sys.argv[1], "rb") as file, torch.no_grad():
    ahead = torch.compiler.load_compiled_function(file)
    torch.testing.assert_close(ahead(model, x), model(x), rtol=1e-5, atol=1e-5)
report = stitch.torch.report()
print(len(report["refused"]), report["kernel_calls"], report["eager_calls"])
"""
    refused, ours, eager = map(int, elsewhere(
        script, tmp_path / "model.pt", tmp_path=tmp_path, **({"server": None} if served else {})
    ).split())  # fmt: skip
    assert refused > 0 and (ours > 0, eager > 0) == (served, not served)


@pytest.mark.parametrize("head", [b"", b"[]", b"{}", b"7", b"\xff", b'{"id": "a"}'])
def test_an_artifact_that_does_not_say_what_it_is_is_not_opened(head, caplog):
    x = torch.randn(6)
    torch.compile(lambda x: (x * 24.5).exp(), backend="stitch", options=EMULATED)(x)
    (slot,) = [slot for slot in _runtime._slots.values() if slot.plan and "24.5" in slot._wanted[0]]
    _artifacts.PlanArtifact(slot.key, head + b"\n" + slot.content.partition(b"\n")[2]).populate_cache()
    assert _artifacts.find(slot.key, ("emulated", 0), None) is None and slot.key not in _artifacts._loaded
    assert "a saved plan does not say what it is" in caplog.text


def test_a_plan_for_other_extents_or_constraints_has_another_key():
    keys = {_artifacts.key_of(*of) for of in [("a", "emulated", ""), ("b", "emulated", ""), ("a", "sm_90", ""),
                                              ("a", "emulated", "deterministic")]}  # fmt: skip
    assert len(keys) == 4


@pytest.fixture
def ahead():
    """Some releases of PyTorch (2.11) give compiled functions an aot_compile on request only."""
    if not hasattr(torch._dynamo.config, "enable_aot_compile"):
        pytest.skip("this PyTorch compiles nothing ahead of time")
    with torch._dynamo.config.patch(enable_aot_compile=True):
        yield


def compiled_ahead(path, **options):
    torch.manual_seed(7)
    model, x = Block(), torch.randn(2, 5, 16)
    run = torch.compile(model, backend="stitch", fullgraph=True, options={**EMULATED, **options})
    ahead = run.forward.aot_compile(((x,), {})) if hasattr(run, "forward") else run.aot_compile(((x,), {}))
    torch.testing.assert_close(ahead(model, x), model(x), rtol=1e-5, atol=1e-5)
    ahead.save_compiled_function(str(path))


@pytest.mark.parametrize("training", [False, True])
def test_a_function_compiled_ahead_runs_in_a_fresh_process(training, ahead, tmp_path):
    with torch.set_grad_enabled(training):
        compiled_ahead(tmp_path / "model.pt")
    script = f"""
training = {training}
with open(sys.argv[1], "rb") as file, torch.set_grad_enabled(training):
    ahead = torch.compiler.load_compiled_function(file)
    y = ahead(model, x)
    if training:
        y.square().sum().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
    right = model(x)
    torch.testing.assert_close(y, right, rtol=1e-5, atol=1e-5)
    if training:
        right.square().sum().backward()
        for ours, p in zip(grads, model.parameters(), strict=True):
            torch.testing.assert_close(ours, p.grad, rtol=1e-4, atol=1e-4)
report = stitch.torch.report()
assert report["failed"] == [] and report["eager_calls"] == 0 and report["kernel_calls"] > 0, report
print("ran")
"""
    assert elsewhere(script, tmp_path / "model.pt", tmp_path=tmp_path) == "ran"


def test_what_stays_with_pytorch_is_compiled_ahead_too(ahead, tmp_path):
    def function(x):
        return x * 22.5

    x = torch.randn(4)
    compiled = torch.compile(function, backend="stitch", fullgraph=True).aot_compile(((x,), {}))
    torch.testing.assert_close(compiled(x), x * 22.5)
    compiled.save_compiled_function(str(tmp_path / "function.pt"))


def test_what_is_compiled_ahead_may_be_given_tensors_that_are_not_strided():
    graph = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.neg.default(x),))
    found = _artifacts.AheadOfTime(graph, stitch.torch._options.settings_of(None, None))(torch.eye(3).to_sparse_csr())
    torch.testing.assert_close(found[0].to_dense(), -torch.eye(3))


def test_dynamic_shapes_are_not_saved_and_it_is_said(ahead, tmp_path):
    run = torch.compile(lambda x: x * 23.5, backend="stitch", fullgraph=True, dynamic=True, options=EMULATED)
    with pytest.raises(stitch.Unsupported, match="dynamic=False"):
        run.aot_compile(((torch.randn(4),), {})).save_compiled_function(str(tmp_path / "function.pt"))
