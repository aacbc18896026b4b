"""Options: arguments before the environment, that before the user's file, that before defaults; and what they bound."""

import dataclasses
import logging
import time

import pytest

import stitch
from stitch import _settings, _tuning


@dataclasses.dataclass(frozen=True)
class Settings:
    device: str = "auto"
    deadline_ms: int = 5
    effort: str = "quick"
    improve: bool = True
    max_workspace_bytes: int | None = None
    server: str | None = None


_CHOICES = {"device": ("auto", "emulated"), "effort": _settings.EFFORTS}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the user's file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "stitch").mkdir()

    def write(text):
        (tmp_path / "stitch" / "config.toml").write_text(text)

    return write


def given():
    return Settings(**_settings.given(Settings, _CHOICES, "jax"))


def test_the_environment_comes_before_the_file_and_that_before_the_default(write, monkeypatch):
    assert given() == Settings()
    write('device = "emulated"\neffort = "full"\ndeadline_ms = 7\n[jax]\ndeadline_ms = 9\n[torch]\nbuckets = 4\n')
    assert given() == Settings(device="emulated", effort="full", deadline_ms=9)
    monkeypatch.setenv("STITCH_EFFORT", "none")
    monkeypatch.setenv("STITCH_MAX_WORKSPACE_BYTES", "4096")
    assert given() == Settings(device="emulated", effort="none", deadline_ms=9, max_workspace_bytes=4096)


@pytest.mark.parametrize(
    "text, message",
    [
        ('devise = "emulated"', "config.toml: there is no option 'devise' .did you mean 'device'"),
        ("[jax]\ndeadline = 5", "config.toml: jax has no option 'deadline' .did you mean 'deadline_ms'"),
        ('effort = "ful"', "config.toml: effort: 'ful' is none of none, quick, full .did you mean 'full'"),
        ('[jax]\nimprove = "perhaps"', "config.toml: jax.improve: expected true or false, found 'perhaps'"),
        ("deadline_ms = 1e3", "config.toml: deadline_ms: expected a number of milliseconds from 0 to 600,000"),
        ("max_workspace_bytes = -1", "config.toml: max_workspace_bytes: expected a number of bytes"),
        ("jax = 1", "config.toml: jax is a table"),
        ("device = ", "config.toml: "),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place(write, text, message):
    write(text)
    with pytest.raises(ValueError, match=message):
        given()


def test_a_file_that_is_named_must_be_there(monkeypatch, tmp_path):
    monkeypatch.setenv("STITCH_CONFIG", str(tmp_path / "other.toml"))
    with pytest.raises(ValueError, match=r"STITCH_CONFIG: there is no file .*other\.toml"):
        given()
    (tmp_path / "other.toml").write_text("deadline_ms = 11")
    assert given() == Settings(deadline_ms=11)


def test_the_file_may_name_the_server(write, tmp_path):
    write(f'server = "unix://{tmp_path}/nobody.sock"')
    with pytest.raises(stitch.Unavailable, match="nobody.sock"):
        stitch.connect()


def test_every_common_option_is_one_of_a_front_end(write):
    torch = pytest.importorskip("torch") and __import__("stitch.torch._options", fromlist=["Settings"])
    onnx = __import__("stitch.onnx._options", fromlist=["ProviderOptions"])
    names = {*torch.list_options(), *onnx.list_provider_options()}
    assert set(_settings._COMMON) <= names
    assert {"fallback", "buckets"} <= names - set(_settings._COMMON)


@pytest.mark.parametrize("mode, disabled", [("tune", False), ("replay", False), ("off", True), ("", False)])
def test_the_mode_off_disables_all_front_ends(mode, disabled, monkeypatch):
    monkeypatch.setenv("STITCH_MODE", mode)

    @dataclasses.dataclass(frozen=True)
    class WithDisable(Settings):
        disable: bool = False

    assert WithDisable(**_settings.given(WithDisable, _CHOICES, "jax")).disable is disabled
    monkeypatch.setenv("STITCH_DISABLE", "0")
    assert not WithDisable(**_settings.given(WithDisable, _CHOICES, "jax")).disable


def test_no_server_is_asked_or_started_in_the_mode_off(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("STITCH_MODE", "off")
    with pytest.raises(stitch.Unavailable, match="STITCH_MODE is off"):
        stitch.connect()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("STITCH_MODE", "reply")
    with pytest.raises(ValueError, match="STITCH_MODE: 'reply' is none of tune, replay, off .did you mean 'replay'"):
        stitch.connect()


def test_a_server_that_was_asked_before_is_not_asked_in_the_mode_off(monkeypatch):
    stitch.plan(normed(19), deadline_ms=120_000, improve=False)
    monkeypatch.setenv("STITCH_MODE", "off")
    with pytest.raises(stitch.Unavailable, match="STITCH_MODE is off"):
        stitch.plan(normed(19))


def test_a_variable_that_nobody_reads_is_said_once_with_the_nearest(monkeypatch, caplog):
    monkeypatch.setenv("STITCH_EFORT", "none")
    monkeypatch.setattr(_settings, "_said", set())
    given()
    given()
    assert [record.message for record in caplog.records if "EFORT" in record.message] == [
        "STITCH_EFORT is set, and nothing here reads it (did you mean STITCH_EFFORT?); `stitch env` lists what is read"
    ]


def test_logs_are_as_loud_as_the_environment_says(monkeypatch, caplog):
    loggers = {name: logging.getLogger(f"stitch{name}") for name in ("", ".torch", ".jax", ".onnx")}
    before = {name: logger.level for name, logger in loggers.items()}
    monkeypatch.setattr(_settings, "_logs", None)
    try:
        monkeypatch.setenv("STITCH_LOGS", "+torch,-onnx, all,jacks")
        given()
        assert {name: logger.getEffectiveLevel() for name, logger in loggers.items()} == {
            "": logging.INFO, ".torch": logging.DEBUG, ".jax": logging.INFO, ".onnx": logging.ERROR,
        }  # fmt: skip
        assert "$STITCH_LOGS: 'jacks' is none of torch, jax, onnx, all" in caplog.text
        loggers[".jax"].setLevel(logging.CRITICAL)  # the program's own choice, later
        given()
        assert loggers[".jax"].level == logging.CRITICAL
    finally:
        for name, logger in loggers.items():
            logger.setLevel(before[name])


def test_what_is_asked_for_may_be_tuned_whatever_is_stored(monkeypatch):
    for rows in (23, 29):
        stitch.tune(normed(rows), effort="quick", budget_seconds=120)
    stitch.reset()
    stitch.plan(normed(23))
    assert stitch.report()["plans_by_source"] == {"store": 1} and "jobs" not in stitch.report()["events"]
    monkeypatch.setenv("STITCH_FORCE_TUNE", "1")
    for _ in range(2):
        stitch.plan(normed(23))
    assert stitch.report()["events"]["jobs"] == 1
    monkeypatch.setenv("STITCH_MODE", "replay")
    stitch.plan(normed(29))
    assert stitch.report()["events"]["jobs"] == 1


def normed(rows: int) -> dict:
    return {
        "format": "stitch-graph", "version": 1, "name": "sums", "results": [2],
        "nodes": [
            {"op": "parameter", "attributes": {"type": f"f32[{rows},96]"}},
            {"op": "exp", "operands": [0]},
            {"op": "reduce", "operands": [1], "attributes": {"kind": "sum", "dimensions": [1]}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("effort", _settings.EFFORTS)
def test_tuning_returns_a_plan_at_its_end(effort):
    # Of a graph of its own, so that no other effort has tuned it. This server does not measure: "full" is as "quick".
    plan = stitch.tune(normed(20 + _settings.EFFORTS.index(effort)), effort=effort, budget_seconds=120)
    assert plan.info["launches"] == 1
    if effort != "none":
        assert plan.info["verified_share"] > 0, plan.info


def test_where_only_what_is_stored_is_served_nothing_is_tuned(monkeypatch):
    monkeypatch.setenv("STITCH_MODE", "replay")
    assert _tuning.begin(None, None, "", "full", 1) is None
    with pytest.raises(stitch.PlanMissing):
        stitch.tune(normed(17), effort="full")


def test_a_budget_ends_tuning_with_the_best_so_far(monkeypatch):
    class Slow:
        """A server that would tune for hours, and says that nobody else waits."""

        cancelled = []

        def tune(self, fragment, trials, constraints):
            return 7, False

        def job(self, number):
            return ("cancelled" if self.cancelled else "running"), ""

        def cancel(self, number):
            self.cancelled.append(number)

    client = Slow()
    began = time.monotonic()
    assert _tuning.begin(client, None, "", "full", 1) == 7
    assert _tuning.wait(client, 7, 1) in ("running", "cancelled")
    while not client.cancelled:
        assert time.monotonic() - began < 6
        time.sleep(0.01)
    assert client.cancelled == [7]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"effort": "ful"}, "effort 'ful' is none of none, quick, full .did you mean 'full'"),
        ({"budget_seconds": -1}, "budget_seconds: expected a number of seconds"),
        ({"max_workspace_bytes": "much"}, "max_workspace_bytes: expected a number of bytes"),
    ],
)
def test_wrong_bounds_are_named(settings, message):
    with pytest.raises(stitch.InvalidArgument, match=message):
        stitch.tune(normed(12), **settings)


def test_a_plan_is_a_program_that_needs_no_server(monkeypatch, tmp_path):
    import numpy

    plan = stitch.plan(normed(13), deadline_ms=120_000)
    plan.save(tmp_path / "plan.stitch")
    monkeypatch.setenv("STITCH_SERVER", f"unix://{tmp_path}/nobody.sock")
    program = stitch.program(tmp_path / "plan.stitch")
    x = numpy.random.default_rng(1).standard_normal((13, 96), "float32")
    numpy.testing.assert_array_equal(program.run(x), plan.run(x))
    assert plan.info["id"] in program.lock()


def split(rows: int) -> dict:
    """Sums of a million elements, which blocks share by way of memory."""
    return {
        "format": "stitch-graph", "version": 1, "name": "long rows", "results": [1],
        "nodes": [
            {"op": "parameter", "attributes": {"type": f"f32[{rows},1048576]"}},
            {"op": "reduce", "operands": [0], "attributes": {"kind": "sum", "dimensions": [1]}},
        ],
    }  # fmt: skip


def test_plans_and_programs_that_need_more_workspace_than_allowed_are_refused(tmp_path):
    plan = stitch.plan(split(1), deadline_ms=120_000, improve=False)
    needs = plan.info["workspace_bytes"]
    assert needs > 0
    assert stitch.plan(split(1), improve=False, max_workspace_bytes=needs).info["workspace_bytes"] == needs
    with pytest.raises(stitch.ConstraintError, match=f"needs {needs} bytes of workspace, max_workspace_bytes is 0"):
        stitch.plan(split(1), improve=False, max_workspace_bytes=0)
    plan.save(tmp_path / "plan.stitch")
    with pytest.raises(stitch.ConstraintError, match="max_workspace_bytes is 0"):
        stitch.program(tmp_path / "plan.stitch", max_workspace_bytes=0)
    assert stitch.program(tmp_path / "plan.stitch", max_workspace_bytes=needs).info["workspace_bytes"] == needs
