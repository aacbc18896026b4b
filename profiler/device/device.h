#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/device_traits.h"
#include "base/result.h"
#include "emulator/counters.h"

// Somewhere kernels run: a GPU in a process of its own (profiler/runner), the emulated device
// (profiler/device/emulated_device.h), or one of these with a layer around it. A Device says who it is and opens
// sessions; a Session owns kernels and buffers, and frees them when it goes:
//
//     STITCH_ASSIGN(auto session, device.session());
//     STITCH_ASSIGN(const KernelHandle kernel, session->load({"scale", ptx, cubin, "sm_90a"}));
//     STITCH_ASSIGN(const BufferHandle x, session->allocate("x", 4096, Zero{}, Access::read_write));
//     STITCH_ASSIGN(const LaunchResult done, session->launch(kernel, {.blocks = 8, .threads = 128}, arguments, {}));
//
// What a kernel did wrong (a write beyond a buffer, a race) is a finding of the launch, not an error; an error is what
// kept it from running to its end. Verification (profiler/verify) and the client's emulated executor work on any
// device; what also tells times is a TimedDevice (profiler/measure/timed_device.h).
namespace stitch::profiler {

/// A compiled kernel as a device loads it: machine code for a GPU, PTX for the emulated device.
struct KernelImage {
  std::string name;  ///< entry point
  std::string ptx;
  std::string cubin;
  std::string architecture;  ///< "sm_90a"
};

/// Launch dimensions; grids and blocks are one-dimensional.
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;
  std::int64_t shared_bytes = 0;  ///< dynamic, per block
  bool cooperative = false;       ///< all blocks must be resident together
  bool awaits =
      false;  ///< waits, if at all, before it touches memory (codegen/device/launch.cuh): emulated devices look
  /// Arguments, by bit, of which it may read the buffers before: nobody writes them while the launch before runs.
  std::uint64_t unwaited = 0;

  bool operator==(const LaunchShape&) const = default;
};

/// Handles; valid for the device that gave them.
struct KernelHandle {
  int id = -1;
};
struct BufferHandle {
  int id = -1;
  std::int64_t bytes = 0;
  std::uint64_t address = 0;  ///< as kernels see it; an address inside the buffer may be passed as an integer
};

/// Produces bytes [offset, offset + size) of a buffer: a pure function of the offset, called from any thread.
using Filler = std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>;

/// What a new buffer holds.
struct Poison {
  std::byte pattern{0xCD};
};
struct Zero {};
using Fill = std::variant<Poison, Zero, Filler>;

/// What kernels may do with a buffer.
enum class Access : std::uint8_t {
  read_write,
  read_only,  ///< inputs; a write is a finding where the device can see it
};

/// A kernel argument of 8 bytes: a buffer's address or an integer.
using LaunchValue = std::variant<BufferHandle, std::int64_t>;

/// A run of bytes of a buffer.
struct WrittenRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// What a launch did, as far as the device can tell.
struct LaunchResult {
  std::vector<std::string> findings;  ///< faults: out of bounds, races, reads of unwritten memory, …; empty: none seen
  std::optional<emulator::Counters> counters;  ///< events; of devices that count them
};

/// Who a device is; what records about it are filed under.
struct DeviceIdentity {
  std::string key;   ///< "emulated", or a GPU's UUID
  std::string kind;  ///< "emulated", "gpu", "recorded"
  std::string name;
  std::string architecture;  ///< of kernels it loads; empty: any
  std::string driver;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  DeviceTraits traits = {};  ///< of a GPU: what its driver reports, from which its class follows
  bool emulated = false;     ///< a GPU that the driver only pretends (driver/): it proves results and tells no times
};

/// Somewhere kernels run. Not thread-safe: one session per thread (open one with Device::session).
class Session {
 public:
  virtual ~Session() = default;

  /// Errors: unsupported (an instruction or architecture the device lacks), parse, runtime.
  virtual Result<KernelHandle> load(const KernelImage& image) = 0;
  /// A buffer with red zones around it. Errors: resource_exhausted; invalid_argument (read only and poisoned).
  virtual Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) = 0;
  virtual Status free(BufferHandle buffer) = 0;
  virtual Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) = 0;
  virtual Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) = 0;

  /// Runs the kernel to its end. `blocks`: linear block indices to run, ascending; empty for all (the only choice
  /// where the device cannot sample). Errors: runtime (a fault that ended it), timeout, constraint,
  /// cancelled.
  virtual Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape,
                                      std::span<const LaunchValue> arguments,
                                      std::span<const std::uint64_t> blocks) = 0;

  /// Launches from now on end soon after the token fires, with kind cancelled, where the device can end them. (One in
  /// another process has a time limit of its own, which is short.)
  virtual void stop_with(const std::stop_token& /*stop*/) {}

  /// Whether launch takes a choice of blocks, and written() tells what they wrote.
  [[nodiscard]] virtual bool samples_blocks() const = 0;
  /// Bytes that the latest launch wrote, merged and ascending.
  [[nodiscard]] virtual std::vector<WrittenRange> written(BufferHandle buffer) const = 0;
};

/// A device; safe to use from several threads.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceIdentity& identity() const = 0;
  virtual Result<std::unique_ptr<Session>> session() = 0;
};

}  // namespace stitch::profiler
