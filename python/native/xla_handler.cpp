#include "python/native/xla_handler.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/gzip.h"
#include "client/open_program.h"
#include "graph/codec/codec_constant.h"

#ifdef STITCH_XLA_FFI
#include <xla/ffi/api/ffi.h>
#endif

namespace stitch::python {

namespace nb = nanobind;

namespace {

#ifdef STITCH_XLA_FFI

namespace ffi = xla::ffi;

std::atomic<std::int64_t> runs = 0;

using Place = std::pair<client::DeviceKind, int>;
constexpr Place host{client::DeviceKind::emulated, 0};

/// The programs that calls of this process run, by device and name. An executable names its programs and holds them, so
/// that it runs in a process that never saw its function; the first call opens a program, and later ones, of other
/// executables too, share it. They stay: XLA says to nobody when an executable ends.
class Programs {
 public:
  Result<std::shared_ptr<client::OpenProgram>> find(const Place& place, std::string_view name,
                                                    std::string_view package) {
    const std::lock_guard lock(mutex_);
    auto& programs = programs_[place];
    const auto known = programs.find(name);
    if (known != programs.end()) return known->second;
    const auto packed = graph::from_base64(package);
    if (!packed) return make_error(ErrorKind::corrupt, "program {}: its text is damaged", name);
    STITCH_ASSIGN(const std::string document, gunzip(*packed, most_bytes));
    STITCH_ASSIGN(std::shared_ptr<client::OpenProgram> opened,
                  client::OpenProgram::open(document, place.first, place.second));
    return programs.emplace(name, std::move(opened)).first->second;
  }

 private:
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

  std::mutex mutex_;
  std::map<Place, std::map<std::string, std::shared_ptr<client::OpenProgram>, std::less<>>> programs_;
};

Programs& programs() {
  static auto* const all = new Programs;  // XLA's threads may outlive static objects
  return *all;
}

ffi::ErrorCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return ffi::ErrorCode::kInvalidArgument;
    case ErrorKind::unsupported: return ffi::ErrorCode::kUnimplemented;
    case ErrorKind::resource_exhausted: return ffi::ErrorCode::kResourceExhausted;
    case ErrorKind::corrupt: return ffi::ErrorCode::kDataLoss;
    default: return ffi::ErrorCode::kInternal;
  }
}

/// A call's buffers.
struct Memory {
  std::vector<std::span<const std::byte>> arguments;
  std::vector<std::span<std::byte>> results;
};

Result<Memory> memory_of(const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results) {
  Memory memory;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto buffer = arguments.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return make_error(ErrorKind::internal, "argument {} is no buffer", i);
    memory.arguments.emplace_back(static_cast<const std::byte*>(buffer->untyped_data()), buffer->size_bytes());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return make_error(ErrorKind::internal, "result {} is no buffer", i);
    memory.results.emplace_back(static_cast<std::byte*>((*buffer)->untyped_data()), (*buffer)->size_bytes());
  }
  return memory;
}

template <class Span>
std::vector<std::uint64_t> addresses_of(const std::vector<Span>& spans) {
  std::vector<std::uint64_t> addresses;
  for (const Span& span : spans) addresses.push_back(reinterpret_cast<std::uint64_t>(span.data()));
  return addresses;
}

ffi::Error answer(const Status& done) {
  return done ? ffi::Error::Success() : ffi::Error(code_of(done.error().kind), "stitch: " + done.error().message);
}

Status run_on_host(std::string_view name, std::string_view package, const ffi::RemainingArgs& arguments,
                   const ffi::RemainingRets& results) {
  STITCH_ASSIGN(const std::shared_ptr<client::OpenProgram> program, programs().find(host, name, package));
  STITCH_ASSIGN(const Memory memory, memory_of(arguments, results));
  ++runs;
  return program->run(memory.arguments, memory.results);
}

Status launch(void* stream, int ordinal, std::string_view name, std::string_view package,
              const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results) {
  STITCH_ASSIGN(const std::shared_ptr<client::OpenProgram> program,
                programs().find({client::DeviceKind::cuda, ordinal}, name, package));
  STITCH_ASSIGN(const Memory memory, memory_of(arguments, results));
  ++runs;
  return program->launch(addresses_of(memory.arguments), addresses_of(memory.results), stream);
}

ffi::Error handle_on_host(std::string_view name, std::string_view package, ffi::RemainingArgs arguments,
                          ffi::RemainingRets results) {
  return answer(run_on_host(name, package, arguments, results));
}

// XLA enqueues what a GPU computes on one stream of its own, so that runs, which share an arena, are in its order.
ffi::Error handle_on_stream(void* stream, std::int32_t ordinal, std::string_view name, std::string_view package,
                            ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return answer(launch(stream, ordinal, name, package, arguments, results));
}

// Before the execution, which may be captured: then nothing can be loaded or allocated any more.
ffi::Error handle_initialization(std::int32_t ordinal, std::string_view name, std::string_view package,
                                 ffi::RemainingArgs, ffi::RemainingRets) {
  const auto opened = programs().find({client::DeviceKind::cuda, ordinal}, name, package);
  return answer(opened ? (*opened)->can_launch() : Status(opened.error()));
}

template <class Binding>
auto with_program(Binding binding) {
  return std::move(binding)
      .template Attr<std::string_view>("name")
      .template Attr<std::string_view>("package")
      .RemainingArgs()
      .RemainingRets();
}

XLA_FFI_DEFINE_HANDLER(host_handler, handle_on_host, with_program(ffi::Ffi::Bind()));
XLA_FFI_DEFINE_HANDLER(stream_handler, handle_on_stream,
                       with_program(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>()),
                       {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER(initialization_handler, handle_initialization,
                       with_program(ffi::Ffi::BindInitialize().Ctx<ffi::DeviceOrdinal>()));

nb::object capsule_of(XLA_FFI_Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

nb::object host_capsule() { return capsule_of(host_handler); }

nb::object stream_capsules() {
  nb::dict stages;
  stages["initialize"] = capsule_of(initialization_handler);
  stages["execute"] = capsule_of(stream_handler);
  return stages;
}

std::int64_t run_count() { return runs; }

#else

nb::object host_capsule() { return nb::none(); }

nb::object stream_capsules() { return nb::none(); }

std::int64_t run_count() { return 0; }

#endif

}  // namespace

void bind_xla(nb::module_& module) {
  module.def("xla_handler", &host_capsule,
             "The handler that runs programs on host memory for XLA, as a capsule; None without XLA's headers");
  module.def("xla_stream_handlers", &stream_capsules,
             "Those that enqueue programs on XLA's stream of a GPU, by stage; None without XLA's headers");
  module.def("xla_run_count", &run_count, "How often the handler ran a program in this process");
}

}  // namespace stitch::python
