"""Profilers of what a JAX process does on the GPU, in the order in which they are tried: JAX's own, then PyTorch's in
the same process. Each runs some work, which waits for the device itself, and returns timing.Events."""
import pathlib
import tempfile

import jax

from . import timing


def stream_events(path):
    """The device's activities in a profile: of each GPU's plane the lines that are streams (others repeat them)."""
    events = []
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                name = event.name
                if any(key == "hlo_module" and "flush_cache" in str(value) for key, value in event.stats):
                    name = "flush_cache"
                events.append(timing.Event(name, event.start_ns / 1e3, event.duration_ns / 1e3))
    return events


def recorded_by_jax(work):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            work()
        finally:
            jax.profiler.stop_trace()
        return [event for path in pathlib.Path(folder).glob("**/*.xplane.pb") for event in stream_events(path)]


def recorded_by_torch(work):
    from . import kineto
    return kineto.device_events(work)


RECORDERS = {"jax": recorded_by_jax, "torch": recorded_by_torch}
