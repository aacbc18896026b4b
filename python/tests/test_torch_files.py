"""`stitch.torch.save` and `load`: what was compiled, in a file that needs neither server nor compiler."""

import hashlib
import json

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, fresh  # noqa: E402, F401
from test_torch_artifacts import elsewhere  # noqa: E402

import stitch.torch  # noqa: E402
from stitch.torch import _artifacts, _files  # noqa: E402

TRAINS = f"""
loaded = stitch.torch.load(sys.argv[1])
run = torch.compile(model, backend="stitch", options={{**{EMULATED!r}, "products": sys.argv[2]}})
y = run(x)
y.square().sum().backward()
right = model(x)
torch.testing.assert_close(y, right, rtol=1e-5, atol=1e-5)
grads = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
right.square().sum().backward()
for ours, p in zip(grads, model.parameters(), strict=True):
    torch.testing.assert_close(ours, p.grad, rtol=1e-4, atol=1e-4)
report = stitch.torch.report()
whole = stitch.report()
asked = [whole[name] for name in ("plans_stored", "plans_predicted", "programs", "artifacts_kept", "artifacts_fetched")]
print(loaded, report["kernel_calls"], report["eager_calls"], sum(asked))
print(*(entry["message"] for entry in report["refused"]), sep="; ")
"""


def saved_to(path, products) -> int:
    """Writes a training step's plans; how many there are."""
    torch._dynamo.reset()
    torch.manual_seed(7)
    model, x = Block(), torch.randn(2, 5, 16)
    options = {**EMULATED, "products": products}
    torch.compile(model, backend="stitch", options=options)(x).square().sum().backward()
    return stitch.torch.save(path, timeout_seconds=120)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of a training step's plans, and of all that this process compiled before; how many there are."""
    path = tmp_path_factory.mktemp("files") / "model.stitch"
    return path, saved_to(path, "torch")


def trained(path, products, tmp_path) -> tuple[list[int], str]:
    counts, reasons = elsewhere(TRAINS + "print('-')", path, products, tmp_path=tmp_path).split("\n")[:2]
    return list(map(int, counts.split())), reasons


@pytest.mark.parametrize("products", ["torch", "ours"])
def test_a_process_without_server_and_compiler_trains_with_what_was_saved(products, tmp_path):
    path = tmp_path / "model.stitch"
    count = saved_to(path, products)
    (loaded, ours, eager, asked), reasons = trained(path, products, tmp_path)
    assert (loaded, eager, asked, reasons) == (count, 0, 0, "") and ours >= 2


def with_head(data: bytes, **changes) -> bytes:
    """Whole by its hash, with another head."""
    _, _, rest = data.partition(b"\n")
    head, _, contents = rest.partition(b"\n")
    rest = json.dumps({**json.loads(head), **changes}).encode() + b"\n" + contents
    return b"stitch-torch 1 " + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def flipped(data: bytes) -> bytes:
    wrong = bytearray(data)
    wrong[len(wrong) // 2] ^= 0x10
    return bytes(wrong)


def for_another_gpu(data: bytes) -> bytes:
    plans = json.loads(data.split(b"\n", 2)[1])["plans"]
    return with_head(data, plans=[{**plan, "target": "sm_90, 132 SMs"} for plan in plans])


WRONG = {
    "truncated": (lambda data: data[:-100], stitch.CorruptError, "truncated: .* bytes of plans are there"),
    "cut in its head": (lambda data: data[:120], stitch.CorruptError, "truncated or changed"),
    "tampered with": (flipped, stitch.CorruptError, "changed: its hash is another"),
    "stale": (lambda data: with_head(data, stitch="0.0.1"), stitch.CompatibilityError, "by Stitch 0.0.1, this is"),
    "of a later format": (lambda data: data.replace(b"h 1 ", b"h 2 ", 1), stitch.CompatibilityError, "in format 2, 1 is"),
    "for another GPU": (for_another_gpu, stitch.CompatibilityError, "for sm_90, 132 SMs; here are emulated"),
    "foreign": (lambda data: b"PK\x03\x04" + data, stitch.ParseError, "no file of stitch.torch.save"),
    "empty": (lambda data: b"", stitch.ParseError, "no file of stitch.torch.save"),
    "with a head that lies": (lambda data: with_head(data, plans=[]), stitch.ParseError, "its head lists 0 bytes"),
    "without a list": (lambda data: with_head(data, plans=7), stitch.ParseError, "does not list plans"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(what, saved, tmp_path, monkeypatch, caplog):
    change, error, said = WRONG[what]
    path = tmp_path / "wrong.stitch"
    path.write_bytes(change(saved[0].read_bytes()))
    monkeypatch.setattr(_artifacts, "_loaded", {})
    with pytest.raises(error, match=said):
        stitch.torch.load(path, strict=True)
    stitch.torch.reset()
    assert stitch.torch.load(path) == 0 and not _artifacts.are_any()
    (entry,) = stitch.torch.report()["refused"]
    assert "wrong.stitch" in entry["message"] and entry["message"] in caplog.text


def test_a_file_that_is_not_there_is_refused_too(tmp_path):
    with pytest.raises(stitch.InvalidArgument, match="No such file"):
        stitch.torch.load(tmp_path / "nothing", strict=True)
    assert stitch.torch.load(tmp_path / "nothing") == 0


@pytest.mark.parametrize("what", ["tampered with", "stale"])
def test_eager_runs_where_a_file_was_refused(what, saved, tmp_path):
    path, _ = saved
    (tmp_path / "wrong.stitch").write_bytes(WRONG[what][0](path.read_bytes()))
    (loaded, ours, eager, _), reasons = trained(tmp_path / "wrong.stitch", "torch", tmp_path)
    assert (loaded, ours) == (0, 0) and eager > 0 and "wrong.stitch" in reasons


def test_a_plan_inside_that_was_changed_is_refused_when_it_is_opened(saved, tmp_path):
    """Whoever changes a plan and the file's hash with it: the plan's own hash is another."""
    path, count = saved
    listed, contents = _files._read(path)
    wrong, place = bytearray(contents), 0
    for *_, size in listed:
        wrong[place + size // 2] ^= 0x10
        place += size
    head, _, _ = path.read_bytes().partition(b"\n")[2].partition(b"\n")
    whole = with_head(b"\n" + head + b"\n" + bytes(wrong))
    (tmp_path / "wrong.stitch").write_bytes(whole)
    (loaded, ours, eager, _), reasons = trained(tmp_path / "wrong.stitch", "torch", tmp_path)
    assert (loaded, ours) == (count, 0) and eager > 0 and "hash" in reasons
