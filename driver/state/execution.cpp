#include "driver/state/driver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "emulator/run/launch.h"

namespace stitch::driver {
namespace {

using emulator::Detector;

/// What the driver of a GPU would say of a kernel that does this; success for what a GPU does not notice.
CUresult fault_of(const emulator::Finding& finding) {
  switch (finding.detector) {
    case Detector::out_of_bounds: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Detector::misaligned: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case Detector::deadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case Detector::trap:
      return finding.message.find("assert") != std::string::npos ? CUDA_ERROR_ASSERT : CUDA_ERROR_LAUNCH_FAILED;
    default: return CUDA_SUCCESS;
  }
}

void lose(CUctx_st& context, CUresult fault) {
  int none = CUDA_SUCCESS;
  if (fault != CUDA_SUCCESS) context.fault.compare_exchange_strong(none, fault);
}

class Execution {
 public:
  Execution(Driver& driver, CUctx_st& context, const Actor& who) : driver_(driver), context_(context), who_(who) {}

  void operator()(const EmptyWork&) {}
  void operator()(const RecordWork&) {}
  void operator()(const WaitWork&) {}
  void operator()(const ChildWork&) {}

  void operator()(const KernelWork& work) {
    if (!driver_.executes) return;
    const std::lock_guard guard(driver_.memory.bytes_mutex());
    emulator::LaunchOptions options;
    options.wait_for_host = [this] {
      // The host gets at all memory meanwhile, and may make more.
      driver_.memory.bytes_mutex().unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      driver_.memory.bytes_mutex().lock();
    };
    emulator::EarlyAccesses early;
    if (who_.early != nullptr) options.early = &early;
    const auto report =
        emulator::launch(work.kernel->program, work.config, work.parameters, driver_.memory.bytes(), options);
    if (!report) {
      driver_.log.add(MisuseKind::kernel, fmt::format("{}: {}", who_.what, report.error().message));
      lose(context_, report.error().kind == ErrorKind::timeout ? CUDA_ERROR_LAUNCH_TIMEOUT : CUDA_ERROR_LAUNCH_FAILED);
      return;
    }
    driver_.log.add_launch(work.kernel->name(), report->counters);
    for (const emulator::Finding& finding : report->findings) {
      const bool freed = finding.message.find("which was freed") != std::string::npos;
      driver_.log.add(freed ? MisuseKind::freed_memory : MisuseKind::kernel,
                      fmt::format("{}: {}", who_.what, emulator::to_text(finding)));
      lose(context_, fault_of(finding));
    }
    touch_early(early);
    driver_.memory.touch_launch(who_);
  }

  void operator()(const LibraryWork& work) {
    if (!driver_.executes) return;
    const std::lock_guard guard(driver_.memory.bytes_mutex());
    std::vector<std::vector<std::byte>> memory;
    for (const LibraryAccess& access : work.accesses) {
      // Its end first: what is asked for may be more than there is memory.
      std::array<std::byte, 1> last{};
      const CUdeviceptr end = access.address + access.span_bytes();
      if (access.span_bytes() > 0 && !check(driver_.memory.bytes().read(end - 1, last), end - 1)) return;
      std::vector<std::byte>& bytes = memory.emplace_back(access.span_bytes());
      if (!check(driver_.memory.bytes().read(access.address, bytes), access.address)) return;
    }
    work.run(memory);
    for (std::size_t a = 0; a < memory.size(); ++a) {
      const LibraryAccess& access = work.accesses[a];
      const auto allocation = driver_.memory.find(access.address);
      std::vector<emulator::ByteRange> ranges;
      for (std::size_t line = 0; line < access.lines; ++line) {
        const std::size_t at = line * access.pitch;
        if (access.writes)
          check(driver_.memory.bytes().write(access.address + at, std::span(memory[a]).subspan(at, access.line_bytes)),
                access.address + at);
        if (allocation) ranges.push_back({access.address + at - allocation->buffer.address, access.line_bytes});
      }
      driver_.memory.touch(access.address, std::move(ranges), access.writes, who_);
    }
  }

  void operator()(const CopyWork& work) {
    const std::lock_guard guard(driver_.memory.bytes_mutex());
    const CUDA_MEMCPY3D& shape = work.shape;
    Side from = side_of(shape.srcMemoryType, shape.srcHost, shape.srcDevice, shape.srcPitch, shape.srcHeight,
                        shape.srcXInBytes, shape.srcY, shape.srcZ, shape);
    const Side to = side_of(shape.dstMemoryType, shape.dstHost, shape.dstDevice, shape.dstPitch, shape.dstHeight,
                            shape.dstXInBytes, shape.dstY, shape.dstZ, shape);
    if (work.staged) {
      from = {false, reinterpret_cast<std::uintptr_t>(work.staged->data()), shape.WidthInBytes,
              shape.WidthInBytes * shape.Height};
    }
    for (std::size_t z = 0; z < shape.Depth; ++z) {
      for (std::size_t y = 0; y < shape.Height; ++y) {
        copy_row(from, to, from.at(y, z), to.at(y, z), shape.WidthInBytes);
      }
    }
    note(from, shape, false);
    note(to, shape, true);
  }

  void operator()(const FillWork& work) {
    const std::lock_guard guard(driver_.memory.bytes_mutex());
    const CUDA_MEMSET_NODE_PARAMS& shape = work.shape;
    const std::size_t bytes = shape.width * shape.elementSize;
    std::vector<std::byte> row(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      row[i] = static_cast<std::byte>(shape.value >> (8 * (i % shape.elementSize)) & 255);
    }
    std::vector<emulator::ByteRange> ranges;
    const auto allocation = driver_.memory.find(shape.dst);
    for (std::size_t y = 0; y < shape.height; ++y) {
      const CUdeviceptr address = shape.dst + y * shape.pitch;
      check(driver_.memory.bytes().write(address, row), address);
      if (allocation) ranges.push_back({address - allocation->buffer.address, bytes});
    }
    driver_.memory.touch(shape.dst, std::move(ranges), true, who_);
  }

  void operator()(const HostWork& work) {
    if (work.callback) {
      work.callback();
    } else {
      work.function(work.data);
    }
  }

  void operator()(const AllocateWork& work) { driver_.memory.touch(work.address, {{0, work.bytes}}, true, who_); }

  void operator()(const FreeWork& work) {
    const auto allocation = driver_.memory.find(work.address);
    if (!allocation) return;
    driver_.memory.touch(work.address, {{0, allocation->buffer.bytes}}, true, who_);
    if (!work.of_graph) static_cast<void>(driver_.memory.free(work.address));
  }

  void operator()(const WordsWork& work) {
    const std::lock_guard guard(driver_.memory.bytes_mutex());
    for (const CUstreamBatchMemOpParams& word : work.words) {
      if (word.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 && word.operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
        continue;
      const std::size_t bytes = word.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8;
      const cuuint64_t value = bytes == 4 ? word.writeValue.value : word.writeValue.value64;
      const CUdeviceptr address = word.writeValue.address;
      check(driver_.memory.bytes().write(address, std::as_bytes(std::span(&value, 1)).first(bytes)), address);
    }
  }

 private:
  /// What a kernel did before it waited for the one before it, which may not have ended then.
  void touch_early(emulator::EarlyAccesses& early) {
    if (who_.early == nullptr) return;
    const Actor who{who_.queue, who_.time, who_.early, who_.what + ", before its griddepcontrol.wait,"};
    for (emulator::EarlyAccesses::Touched& one : early.touched()) {
      driver_.memory.touch(one.buffer, std::move(one.reads), false, who);
      driver_.memory.touch(one.buffer, std::move(one.writes), true, who);
    }
  }

  /// One end of a copy: where its rows lie.
  struct Side {
    bool known = false;  ///< memory that the device reaches, so that the emulator keeps it
    CUdeviceptr start = 0;
    std::size_t pitch = 0, slice = 0;
    [[nodiscard]] CUdeviceptr at(std::size_t y, std::size_t z) const { return start + z * slice + y * pitch; }
  };

  Side side_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch, std::size_t height,
               std::size_t x, std::size_t y, std::size_t z, const CUDA_MEMCPY3D& shape) {
    const CUdeviceptr base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host) : device;
    if (pitch == 0) pitch = shape.WidthInBytes;
    const std::size_t slice = pitch * std::max(height, shape.Height);
    const CUdeviceptr start = base + z * slice + y * pitch + x;
    constexpr CUdeviceptr host_end = CUdeviceptr{1} << 48;
    return {driver_.memory.find(start).has_value() || start >= host_end, start, pitch, slice};
  }

  void copy_row(const Side& from, const Side& to, CUdeviceptr source, CUdeviceptr target, std::size_t bytes) {
    emulator::Memory& memory = driver_.memory.bytes();
    auto* host_source = reinterpret_cast<std::byte*>(source);
    auto* host_target = reinterpret_cast<std::byte*>(target);
    if (from.known && to.known) {
      check(memory.copy(target, source, bytes), target);
    } else if (from.known) {
      check(memory.read(source, {host_target, bytes}), source);
    } else if (to.known) {
      check(memory.write(target, {host_source, bytes}), target);
    } else {
      std::memmove(host_target, host_source, bytes);
    }
  }

  void note(const Side& side, const CUDA_MEMCPY3D& shape, bool writes) {
    const auto allocation = side.known ? driver_.memory.find(side.start) : std::nullopt;
    if (!allocation) return;
    std::vector<emulator::ByteRange> ranges;
    for (std::size_t z = 0; z < shape.Depth; ++z) {
      for (std::size_t y = 0; y < shape.Height; ++y) {
        ranges.push_back({side.at(y, z) - allocation->buffer.address, shape.WidthInBytes});
      }
    }
    driver_.memory.touch(side.start, std::move(ranges), writes, who_);
  }

  /// Memory that was there when the call was made may be gone.
  bool check(const Status& status, CUdeviceptr address) {
    if (status) return true;
    const std::string freed = driver_.memory.freed_name(address);
    driver_.log.add(freed.empty() ? MisuseKind::invalid_call : MisuseKind::freed_memory,
                    fmt::format("{}: {}", who_.what, status.error().message));
    lose(context_, CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
  }

  Driver& driver_;
  CUctx_st& context_;
  const Actor& who_;
};

}  // namespace

void execute(Driver& driver, CUctx_st& context, const Work& work, const Actor& who) {
  if (context.fault.load() != CUDA_SUCCESS) return;
  std::visit(Execution(driver, context, who), work);
}

bool is_fulfilled(Driver& driver, const CUstreamBatchMemOpParams& word) {
  const bool narrow = word.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
  if (!narrow && word.operation != CU_STREAM_MEM_OP_WAIT_VALUE_64) return true;
  cuuint64_t now = 0;
  {
    const std::lock_guard guard(driver.memory.bytes_mutex());
    const auto into = std::as_writable_bytes(std::span(&now, 1)).first(narrow ? 4 : 8);
    if (!driver.memory.bytes().read(word.waitValue.address, into)) return true;
  }
  const cuuint64_t wanted = narrow ? word.waitValue.value : word.waitValue.value64;
  switch (word.waitValue.flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return narrow ? static_cast<std::int32_t>(now - wanted) >= 0 : static_cast<std::int64_t>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return (now & wanted) != 0;
    default: return (narrow ? (~(now | wanted) & 0xFFFFFFFFU) : ~(now | wanted)) != 0;
  }
}

}  // namespace stitch::driver
