#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "driver/state/access_history.h"
#include "driver/state/misuse.h"
#include "emulator/decode/code.h"
#include "emulator/memory/memory.h"

namespace stitch::driver {

enum class MemoryKind : std::uint8_t {
  device,          ///< cuMemAlloc, pitched memory too
  pooled,          ///< cuMemAllocAsync and its kin
  pooled_host,     ///< of a pool of the host's memory
  pooled_managed,  ///< of a pool of managed memory
  mapped,          ///< cuMemMap: neighbouring mappings that have access
  managed,         ///< cuMemAllocManaged: the host uses it at the same address
  pinned,          ///< cuMemAllocHost, cuMemHostAlloc
  registered,      ///< cuMemHostRegister: the host's own
  variable,        ///< a module's
};

/// What a program advised of a part of managed memory. It changes nothing here, and is told when asked for.
struct ManagedAdvice {
  bool read_mostly = false;
  CUmemLocation preferred{};  ///< invalid: none
  std::vector<CUmemLocation> accessed_by;
  CUmemLocation last_prefetch{};
};

/// Memory that the device can reach.
struct Allocation {
  emulator::Buffer buffer;
  MemoryKind kind = MemoryKind::device;
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUmemoryPool pool = nullptr;
  unsigned flags = 0;        ///< of the host's kinds, as they were asked for
  std::uint64_t number = 0;  ///< of all allocations of the process, from 1
  std::string name;          ///< "cuMemAlloc 3"
  AccessHistory history;
  std::uint64_t file_offset = 0;  ///< of memory of a pool that other processes see: where in the pool's file
  std::shared_ptr<void> backing;  ///< what goes with it: the mapping of memory that has a host address
  std::shared_ptr<std::map<std::uint64_t, ManagedAdvice>> advice;  ///< of managed memory: by page
  bool ending = false;                                             ///< a cuMemFreeAsync of it was submitted

  [[nodiscard]] bool on_host() const { return is_managed() || is_pinned(); }
  [[nodiscard]] bool is_managed() const { return kind == MemoryKind::managed || kind == MemoryKind::pooled_managed; }
  [[nodiscard]] bool is_pinned() const {
    return kind == MemoryKind::pinned || kind == MemoryKind::registered || kind == MemoryKind::pooled_host;
  }
  [[nodiscard]] bool is_pooled() const {
    return kind == MemoryKind::pooled || kind == MemoryKind::pooled_host || kind == MemoryKind::pooled_managed;
  }
};

/// Who does something to memory: for the check of order, and for what is said of it.
struct Actor {
  std::uint32_t queue = 0;
  std::uint64_t time = 0;
  const StreamClock* clock = nullptr;  ///< what happened before it
  std::string what;
  const StreamClock* early = nullptr;  ///< of a kernel that waits for the one before it: what happened before the wait
};

/// All memory of the emulated devices, in one address space. Two locks: that of the bytes is held while an operation
/// runs (emulator::Memory wants no call beside a launch), that of the table for moments, so that calls that look an
/// address up never wait for a kernel. New memory waits for the running kernel.
class MemoryMap {
 public:
  explicit MemoryMap(MisuseLog& log) : log_(log) {}

  /// Errors: resource_exhausted. `call`: names the allocation ("cuMemAlloc").
  Result<CUdeviceptr> allocate(Allocation details, std::uint64_t bytes, std::string_view call);
  /// Host memory that kernels see at its address; `host` is kept alive by the caller. Errors: invalid_argument.
  Result<CUdeviceptr> attach(Allocation details, std::span<std::byte> host, std::string_view call);
  struct HostRange {
    Allocation details;
    std::span<std::byte> host;
  };
  /// Ends allocations and attaches others in one step, between two operations. Returns where the new ones begin.
  /// Errors: invalid_argument, resource_exhausted; the old ones are gone then.
  Result<std::vector<CUdeviceptr>> reattach(std::span<const CUdeviceptr> old, std::vector<HostRange> ranges,
                                            std::string_view call);
  /// Places a module's variables. Returns their buffers.
  Result<std::vector<emulator::Buffer>> place(const Hash128& module,
                                              std::span<const emulator::ModuleVariable> variables,
                                              const Allocation& details);
  /// Ends an allocation. The host's memory itself is the caller's. Error: not_found.
  Status free(CUdeviceptr address);

  /// A copy of what is known of the allocation that holds `address`; without its history.
  [[nodiscard]] std::optional<Allocation> find(CUdeviceptr address);
  /// The allocation that held `address` and was freed; empty if there was none.
  [[nodiscard]] std::string freed_name(CUdeviceptr address);
  /// Marks one that is going to be freed; whether it was marked already.
  bool mark_ending(CUdeviceptr address);
  [[nodiscard]] std::vector<Allocation> all();
  [[nodiscard]] std::uint64_t bytes_in_use(CUdevice device);
  [[nodiscard]] std::uint64_t bytes_in_pool(CUmemoryPool pool);
  /// How many there have been, variables of modules included.
  [[nodiscard]] std::uint64_t allocations();

  /// Notes that `who` reads or writes parts of the allocation at `address`, and reports a conflict.
  void touch(CUdeviceptr address, std::vector<emulator::ByteRange> ranges, bool writes, const Actor& who);
  /// The same with all that the latest launch did.
  void touch_launch(const Actor& who);
  /// Forgets what the host has waited for.
  void forget(const StreamClock& known);

  /// To be held around everything that uses `bytes`.
  std::mutex& bytes_mutex() { return bytes_mutex_; }
  emulator::Memory& bytes() { return bytes_; }

 private:
  Allocation* find_locked(CUdeviceptr address);
  Status free_locked(CUdeviceptr address);
  CUdeviceptr keep(Allocation details, const emulator::Buffer& buffer, std::string name);
  void report(const Allocation& allocation, const Conflict& conflict, bool writes, const Actor& who);

  MisuseLog& log_;
  std::mutex bytes_mutex_;
  emulator::Memory bytes_;
  std::mutex table_mutex_;
  std::map<CUdeviceptr, Allocation> live_;
  std::map<CUdeviceptr, std::pair<std::uint64_t, std::string>> freed_;  ///< bytes and name
  std::uint64_t allocations_ = 0;
};

}  // namespace stitch::driver
