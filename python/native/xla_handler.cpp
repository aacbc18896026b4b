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

/// The programs that calls of this process run, by their names. An executable names its programs and holds them, so
/// that it runs in a process that never saw its function; the first call opens a program, and later ones, of other
/// executables too, share it. They stay: XLA says to nobody when an executable ends.
class Programs {
 public:
  Result<std::shared_ptr<client::OpenProgram>> find(std::string_view name, std::string_view package) {
    const std::lock_guard lock(mutex_);
    const auto known = programs_.find(name);
    if (known != programs_.end()) return known->second;
    const auto packed = graph::from_base64(package);
    if (!packed) return make_error(ErrorKind::corrupt, "program {}: its text is damaged", name);
    STITCH_ASSIGN(const std::string document, gunzip(*packed, most_bytes));
    STITCH_ASSIGN(std::shared_ptr<client::OpenProgram> opened,
                  client::OpenProgram::open(document, client::DeviceKind::emulated, 0));
    return programs_.emplace(name, std::move(opened)).first->second;
  }

 private:
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<client::OpenProgram>, std::less<>> programs_;
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

Status run_program(std::string_view name, std::string_view package, const ffi::RemainingArgs& arguments,
                   const ffi::RemainingRets& results) {
  STITCH_ASSIGN(const std::shared_ptr<client::OpenProgram> program, programs().find(name, package));
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto buffer = arguments.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return make_error(ErrorKind::internal, "argument {} is no buffer", i);
    from.emplace_back(static_cast<const std::byte*>(buffer->untyped_data()), buffer->size_bytes());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return make_error(ErrorKind::internal, "result {} is no buffer", i);
    to.emplace_back(static_cast<std::byte*>((*buffer)->untyped_data()), (*buffer)->size_bytes());
  }
  ++runs;
  return program->run(from, to);
}

ffi::Error handle(std::string_view name, std::string_view package, ffi::RemainingArgs arguments,
                  ffi::RemainingRets results) {
  const Status ran = run_program(name, package, arguments, results);
  return ran ? ffi::Error::Success() : ffi::Error(code_of(ran.error().kind), "stitch: " + ran.error().message);
}

XLA_FFI_DEFINE_HANDLER(
    handler, handle,
    ffi::Ffi::Bind().Attr<std::string_view>("name").Attr<std::string_view>("package").RemainingArgs().RemainingRets());

nb::object capsule() { return nb::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET"); }

std::int64_t run_count() { return runs; }

#else

nb::object capsule() { return nb::none(); }

std::int64_t run_count() { return 0; }

#endif

}  // namespace

void bind_xla(nb::module_& module) {
  module.def("xla_handler", &capsule,
             "The handler that runs programs for XLA, as a capsule; None without XLA's headers");
  module.def("xla_run_count", &run_count, "How often the handler ran a program in this process");
}

}  // namespace stitch::python
