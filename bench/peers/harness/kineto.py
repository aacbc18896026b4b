"""PyTorch's profiler as a recorder of everything that this process does on the GPU."""
import torch

from . import timing


def device_events(work):
    """Kernels, copies and fills on the device while `work` runs; it has to wait for the device itself."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        work()
    return [timing.Event(event.name(), event.start_ns() / 1e3, event.duration_ns() / 1e3)
            for event in profile.profiler.kineto_results.events()
            if event.device_type() == torch.autograd.DeviceType.CUDA and not event.is_user_annotation()]
