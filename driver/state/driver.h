#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "driver/state/device.h"
#include "driver/state/engine.h"
#include "driver/state/handles.h"
#include "driver/state/memory_map.h"
#include "driver/state/misuse.h"
#include "driver/state/virtual_memory.h"

namespace stitch::driver {

using Lock = std::unique_lock<std::mutex>;

/// The driver's state, one per process and never destroyed: threads may be in a kernel when the process ends. Handles
/// are objects of ours; what is not in its set is no handle (any more). Everything but engine, log and memory, which
/// look after themselves, is used under `mutex`.
class Driver {
 public:
  static Driver& instance();

  std::mutex mutex;
  MisuseLog log;
  MemoryMap memory{log};
  Engine engine;

  /// Whether kernels are run. Without, launches are taken and checked as calls, and nothing comes of them.
  const bool executes;

  std::vector<EmulatedDevice> devices;
  std::string why_no_devices;
  std::uint64_t images_loaded = 0;  ///< modules and libraries, from the start on
  std::uint64_t calls = 0;          ///< of functions that take the lock, from the start on
  std::uint64_t waits = 0;          ///< of the host for a device, also where there was nothing to wait for
  int process = 0;                  ///< of cuInit; 0 before it: a child of a fork has no driver

  std::set<CUcontext> contexts;
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUlibrary> libraries;
  std::map<const void*, std::shared_ptr<Kernel>> kernels;  ///< by handle: functions and kernels of libraries
  std::set<CUgraph> graphs;                                ///< of their owner's own, not of nodes
  std::set<CUgraphNode> nodes;
  std::set<CUgraphExec> executables;
  std::set<CUmemoryPool> pools;
  std::set<CUuserObject> user_objects;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<PhysicalMemory>> physical_memory;  ///< by handle
  std::map<CUdeviceptr, AddressReservation> reservations;                                   ///< by address
  std::map<CUdevice, CUcontext> primary;
  std::map<CUdevice, unsigned> primary_flags;
  std::map<CUdevice, CUmemoryPool> default_pool, current_pool;
  /// The same for pools of the host's and of managed memory: by kind of allocation, kind of location, its number.
  std::map<std::tuple<int, int, int>, CUmemoryPool> default_pool_at, current_pool_at;
  StreamClock host;  ///< what the host has waited for

  std::uint64_t next_serial() { return ++serial_; }
  std::uint32_t new_queue() { return ++queues_; }

  /// Waits, without the lock, until the engine has got as far as `clock`; then the host knows of it.
  void wait(Lock& lock, const StreamClock& clock);
  /// What a context's streams have been given so far.
  [[nodiscard]] StreamClock all_of(CUcontext context);
  /// What the next operation of a stream comes after, default streams included.
  [[nodiscard]] StreamClock clock_for(CUstream stream);
  /// Of that, what does not come from the stream itself.
  [[nodiscard]] StreamClock clock_of_others(CUstream stream);

  CUcontext new_context(CUdevice device, unsigned flags, bool primary_context);
  CUstream new_stream(CUcontext context, unsigned flags, int priority);
  void destroy_stream(CUstream stream);
  /// Ends a context: its streams, modules and memory.
  void destroy_context(CUcontext context);
  void unload(CUmodule module);

 private:
  Driver();
  std::uint64_t serial_ = 0;
  std::uint32_t queues_ = 0;
};

/// The contexts of this thread, the current one last.
std::vector<CUcontext>& context_stack();

/// Where an operation is put.
struct Placement {
  CUcontext context = nullptr;
  std::uint32_t queue = 0;
  StreamClock after;    ///< what must have ended before it begins
  StreamClock ordered;  ///< what of that happened before it: less, for a kernel that may overlap the one before it
  std::optional<StreamClock> early = {};  ///< of a kernel that waits for the one before it: what happened before that
  std::string place;                      ///< "stream 3"
};

/// Puts a dependent kernel, operation `time` of its queue, after `before`; returns what holds for the next.
LaunchOrder depend(Placement& where, const KernelWork& work, const LaunchOrder& before, std::uint64_t time);

/// Hands work to the engine; returns what is known once it has ended.
StreamClock submit(Driver& driver, Placement where, Work work);
/// Puts work on a stream that is not captured.
void submit(Driver& driver, CUstream stream, Work work);

// ---- driver/state/execution.cpp

/// Does what a work says, now, on the engine's thread: launches a kernel on the emulator, copies, fills, calls the
/// host. What it finds goes to the log; a fault of a kernel loses the context, which skips whatever comes after.
void execute(Driver& driver, CUctx_st& context, const Work& work, const Actor& who);

/// Whether a wait for a word of memory is over.
bool is_fulfilled(Driver& driver, const CUstreamBatchMemOpParams& word);

}  // namespace stitch::driver
