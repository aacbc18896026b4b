"""stitch.report: what a process did, of the plain client and of every front end that it imported."""

import json
import sys

import numpy
import pytest

import stitch


@pytest.fixture(autouse=True)
def anew():
    stitch.reset()


def scaled(columns: int) -> dict:
    return {
        "format": "stitch-graph", "version": 1, "name": "scaled", "results": [1],
        "nodes": [
            {"op": "parameter", "attributes": {"type": f"f32[4,{columns}]"}},
            {"op": "exp", "operands": [0]},
        ],
    }  # fmt: skip


def test_hits_misses_phases_and_launches_are_counted():
    plan = stitch.plan(scaled(96), deadline_ms=120_000, improve=False)
    report = stitch.report()
    assert report["plans_by_source"] == {"predicted": 1} and report["launches"] == 0
    assert report["plans_by_label"] == {plan.info["label"]: 1}
    (miss,) = report["missed"]
    assert miss["fragment"] == plan.info["fragment"] and (miss["name"], miss["count"]) == ("scaled", 1)
    assert miss["source"] == "predicted" and miss["reason"]
    for _ in range(3):
        plan.run(numpy.zeros((4, 96), "float32"))
    stitch.plan(scaled(96), improve=False)
    report = stitch.report()
    assert report["plans_by_source"] == {"predicted": 1, "store": 1} and len(report["missed"]) == 1
    assert report["launches"] == 3 * plan.info["launches"] == 3
    phases = report["phases"]
    assert {name: phases[name]["count"] for name in ("fetch", "load", "first launch")} == {
        "fetch": 2, "load": 2, "first launch": 1,
    }  # fmt: skip
    assert phases["fetch"]["us"] > 0 and phases["fetch"]["failed"] == 0
    assert json.loads(json.dumps(report)) == report
    stitch.reset()
    assert stitch.report()["phases"] == {} and stitch.report()["launches"] == 0


def test_a_miss_that_nothing_is_predicted_for_has_its_reason():
    with pytest.raises(stitch.PlanMissing):
        stitch.plan(scaled(101), predict=False)
    report = stitch.report()
    assert report["plans_by_source"] == {} and report["phases"]["fetch"]["failed"] == 0
    (miss,) = report["missed"]
    assert miss["source"] == "" and "is stored" in miss["reason"]


def test_programs_that_are_open_say_what_memory_they_need():
    program = stitch.program(scaled(128), deadline_ms=120_000, improve=False)
    (entry,) = [entry for entry in stitch.report()["open_programs"] if entry["id"] == program.info["id"]]
    assert entry["planned_bytes"] == program.info["arena_bytes"] + program.info["workspace_bytes"]
    assert stitch.report()["peak_bytes"] >= entry["planned_bytes"]
    del program
    assert entry not in stitch.report()["open_programs"]


def test_front_ends_that_were_imported_have_their_reports(monkeypatch):
    onnx = pytest.importorskip("stitch.onnx")
    assert stitch.report()["onnx"] == onnx.report()
    monkeypatch.delitem(sys.modules, "stitch.onnx")
    assert "onnx" not in stitch.report()


def test_sessions_runs_and_models_of_onnxruntimes_are_counted(monkeypatch):
    parser = pytest.importorskip("onnx.parser")
    pytest.importorskip("onnxruntime")
    import stitch.onnx

    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3, 64] x) => (float[3, 64] y) { y = Tanh(x) }'
    ).SerializeToString()
    feeds = {"x": numpy.ones((3, 64), "float32")}
    stitch.reset()
    session = stitch.onnx.InferenceSession(model)
    ours = [session.run(None, feeds)[0] for _ in range(2)][0]
    assert stitch.onnx.report() == {"sessions": 1, "runs": 2, "onnxruntime_runs": 0, "fell_back": []}
    assert stitch.report()["launches"] == 2 * session.info()["launches"]
    monkeypatch.setenv("STITCH_DISABLE", "1")
    theirs = stitch.onnx.InferenceSession(model)
    numpy.testing.assert_allclose(theirs.run(None, feeds)[0], ours, rtol=1e-6)
    assert theirs.get_providers() == ["CPUExecutionProvider"]
    assert stitch.report()["onnx"] == {"sessions": 2, "runs": 2, "onnxruntime_runs": 1, "fell_back": []}


def test_jax_says_why_a_plan_was_not_stored_where_it_explains_its_misses(caplog):
    jax = pytest.importorskip("jax")
    import stitch.jax

    def said(columns: int) -> list[str]:
        caplog.clear()
        stitch.jax.jit(jax.numpy.tanh, device="emulated", improve=False)(numpy.ones((5, columns), "float32"))
        return [record.message for record in caplog.records if record.name == "stitch.jax"]

    before = jax.config.jax_explain_cache_misses
    try:
        jax.config.update("jax_explain_cache_misses", True)
        (message,) = said(33)
        assert message.startswith("tanh: no plan was stored for fragment ")
        assert said(33) == []
        jax.config.update("jax_explain_cache_misses", False)
        assert said(34) == []
    finally:
        jax.config.update("jax_explain_cache_misses", before)
