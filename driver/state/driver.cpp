#include "driver/state/driver.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace stitch::driver {
namespace {

std::uint64_t seed_of_order() {
  const char* seed = std::getenv("STITCH_EMULATED_ORDER");
  return seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10);
}

bool wants_execution() {
  const char* wanted = std::getenv("STITCH_EMULATED_EXECUTE");
  return wanted == nullptr || std::string_view(wanted) != "0";
}

}  // namespace

Driver::Driver() : engine(seed_of_order()), executes(wants_execution()) {
  if (auto found = emulated_devices()) {
    devices = *std::move(found);
  } else {
    why_no_devices = found.error().message;
  }
}

Driver& Driver::instance() {
  static auto* driver = new Driver;
  return *driver;
}

void Driver::wait(Lock& lock, const StreamClock& clock) {
  ++waits;
  lock.unlock();
  engine.wait(clock);
  lock.lock();
  host.join(clock);
  memory.forget(host);
}

StreamClock Driver::all_of(CUcontext context) {
  StreamClock clock;
  for (CUstream stream : context->streams) {
    clock.join(stream->known);
    clock.advance(stream->queue, engine.last(stream->queue));
  }
  return clock;
}

StreamClock Driver::clock_for(CUstream stream) {
  StreamClock clock = clock_of_others(stream);
  clock.join(stream->known);
  return clock;
}

StreamClock Driver::clock_of_others(CUstream stream) {
  StreamClock clock = host;
  CUstream legacy = stream->context->legacy;
  if (stream == legacy) {
    for (CUstream other : stream->context->streams) {
      if (other->blocking) clock.join(other->known);
    }
  } else if (stream->blocking) {
    clock.join(legacy->known);
  }
  return clock;
}

CUcontext Driver::new_context(CUdevice device, unsigned flags, bool primary_context) {
  auto* context = new CUctx_st;
  context->device = device;
  context->flags = flags;
  context->primary = primary_context;
  context->id = next_serial();
  context->limits = {{CU_LIMIT_STACK_SIZE, 1024},
                     {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
                     {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
                     {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
                     {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                     {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
  contexts.insert(context);
  context->legacy = new_stream(context, CU_STREAM_DEFAULT, 0);
  return context;
}

CUstream Driver::new_stream(CUcontext context, unsigned flags, int priority) {
  auto* stream = new CUstream_st;
  stream->context = context;
  stream->queue = new_queue();
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = next_serial();
  context->streams.insert(stream);
  streams.insert(stream);
  return stream;
}

void Driver::destroy_stream(CUstream stream) {
  // What it was given still runs; the default stream waits for that as for its own.
  stream->context->legacy->learn(stream->known);
  stream->context->streams.erase(stream);
  streams.erase(stream);
  delete stream;
}

void Driver::unload(CUmodule module) {
  for (const auto& [name, function] : module->functions) kernels.erase(function.get());
  modules.erase(module);
  const auto& variables = module->text->contents().variables;
  Allocation details;
  if (auto buffers = memory.place(module->text->contents().module, variables, details); buffers && !variables.empty()) {
    for (const emulator::Buffer& buffer : *buffers) static_cast<void>(memory.free(buffer.address));
  }
  delete module;
}

void Driver::destroy_context(CUcontext context) {
  for (CUlibrary library : libraries) library->modules.erase(context);
  for (CUmodule module : std::vector(modules.begin(), modules.end())) {
    if (module->context == context) unload(module);
  }
  for (const Allocation& allocation : memory.all()) {
    const bool own = allocation.context == context;
    if (!own) continue;
    if (!context->primary && context->fault.load() == CUDA_SUCCESS) {
      log.add(MisuseKind::leak, fmt::format("{} ({} bytes) is lost with its context, which was destroyed before it",
                                            allocation.name, allocation.buffer.bytes));
    }
    static_cast<void>(memory.free(allocation.buffer.address));
  }
  for (CUevent event : std::vector(events.begin(), events.end())) {
    if (event->context == context) event->context = nullptr;
  }
  for (CUstream stream : std::vector(context->streams.begin(), context->streams.end())) {
    streams.erase(stream);
    delete stream;
  }
  contexts.erase(context);
  // Operations that were skipped, and the engine, may still look at the fault of it: it stays.
}

std::vector<CUcontext>& context_stack() {
  thread_local std::vector<CUcontext> stack;
  return stack;
}

LaunchOrder depend(Placement& where, const KernelWork& work, const LaunchOrder& before, std::uint64_t time) {
  const DependentOrder order(work, before);
  where.ordered = order.waited;
  if (work.kernel->declared->waits_for_primary) where.early = order.early;
  return order.after(work, where.queue, time);
}

StreamClock submit(Driver& driver, Placement where, Work work) {
  const std::uint64_t time = driver.engine.last(where.queue) + 1;
  StreamClock end = where.after;
  end.advance(where.queue, time);
  std::function<bool()> may_run;
  if (const auto* words = std::get_if<WordsWork>(&work)) {
    may_run = [&driver, waited = words->words] {
      return std::ranges::all_of(waited, [&](const auto& word) { return is_fulfilled(driver, word); });
    };
  }
  auto what = fmt::format("{} on {}", describe(work), where.place);
  driver.engine.submit(
      where.queue, std::move(where.after),
      [&driver, context = where.context, queue = where.queue, time, clock = std::move(where.ordered),
       early = std::move(where.early), work = std::make_shared<Work>(std::move(work)), what = std::move(what)] {
        execute(driver, *context, *work, {queue, time, &clock, what, early ? &*early : nullptr});
      },
      std::move(may_run));
  return end;
}

void submit(Driver& driver, CUstream stream, Work work) {
  const StreamClock after = driver.clock_for(stream);
  Placement where{stream->context, stream->queue, after, after, {}, "the default stream"};
  if (stream != stream->context->legacy) where.place = fmt::format("stream {}", stream->id);
  if (!is_dependent(work)) {
    stream->known = submit(driver, std::move(where), std::move(work));
    stream->order = {after, stream->known};
    return;
  }
  stream->order.join(driver.clock_of_others(stream));
  stream->order = depend(where, std::get<KernelWork>(work), stream->order, driver.engine.last(stream->queue) + 1);
  stream->known = submit(driver, std::move(where), std::move(work));
}

}  // namespace stitch::driver
