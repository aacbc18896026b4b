#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/finding.h"
#include "emulator/memory/l1_cache.h"
#include "emulator/memory/shared_memory.h"
#include "emulator/memory/tensor_memory.h"
#include "emulator/memory/unit_clock.h"

/// The state of blocks in flight: plain data, so that any number of blocks can be resident and suspended anywhere.
namespace stitch::emulator {

/// Memory for register rows, aligned for vector access. Not cleared.
class RowStorage {
 public:
  void reserve(std::size_t bytes) {
    if (bytes > bytes_) {
      storage_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
      bytes_ = bytes;
    }
  }
  [[nodiscard]] std::byte* data() { return storage_.get(); }

 private:
  struct Delete {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Delete> storage_;
  std::size_t bytes_ = 0;
};

enum class SplitState : std::uint8_t {
  ready,
  polling,    ///< ready, but saw nothing new: others first
  gathering,  ///< at an instruction that needs more lanes of the warp than are here
  barrier,    ///< arrived at a barrier of the block
  cluster,    ///< waits for the cluster barrier
  columns,    ///< looks again whether there are columns of tensor memory to allocate, which its block has to free
};

/// Lanes of a warp that are at the same instruction. A converged warp is one split, a diverged one several.
struct WarpSplit {
  std::uint32_t pc = 0;
  std::uint32_t lanes = 0;
  SplitState state = SplitState::ready;
  bool forced = false;        ///< executes although lanes are missing (after a finding)
  std::uint32_t needed = 0;   ///< gathering: the lanes that must come together
  std::uint32_t barrier = 0;  ///< which of the block's barriers
};

/// A copy of cp.async between issue and wait.
struct PendingCopy {
  std::uint32_t lane = 0;
  std::uint32_t group = 0;   ///< of the lane: how many groups it had committed before
  std::uint32_t offset = 0;  ///< in shared memory
  std::uint32_t bytes = 0;
  std::array<std::byte, 16> data{};
};

/// A bulk copy between issue and wait; data was read at issue.
struct PendingBulk {
  bool to_global = false;
  bool reduces = false;
  bool first_of_tile = true;  ///< counts as the request; the other rows of a tile only as sectors
  AtomicType reduction = AtomicType::u32;
  std::uint32_t detail = 0;  ///< Code::bulks
  std::uint32_t instruction = 0;
  std::uint32_t lane = 0;  ///< issuer
  std::uint32_t group = 0;
  std::uint32_t source_offset = 0;  ///< of a shared source
  std::uint64_t target = 0;         ///< global address, or shared offset in `block`
  std::uint32_t block = 0;
  std::vector<std::byte> data;
};

struct Warp {
  std::uint32_t index = 0;  ///< in the block
  std::uint32_t agent = 0;  ///< of the unit's clock
  std::uint32_t launched = 0;
  std::uint32_t alive = 0;
  std::byte* registers = nullptr;
  std::byte* local = nullptr;             ///< lane-major, Code::local_bytes each
  std::uint8_t* local_written = nullptr;  ///< the same shape: 1 where initialised
  std::uint64_t executed = 0;
  std::vector<WarpSplit> splits;

  std::vector<PendingCopy> copies;
  std::array<std::uint32_t, 32> copy_groups{};  ///< committed, per lane
  std::vector<PendingBulk> bulk_stores;
  std::array<std::uint32_t, 32> bulk_groups{};
  std::array<std::uint32_t, 32> bulk_groups_done{};

  struct InFlightRegister {
    Slot slot = no_slot;
    std::uint32_t group = 0;
    std::uint32_t detail = 0;
  };
  struct SharedRange {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t group = 0;
  };
  std::vector<InFlightRegister> products;  ///< accumulators of wgmma between issue and wait
  std::vector<SharedRange> product_reads;
  std::uint32_t product_groups = 0;

  std::array<std::uint32_t, 32> cluster_arrivals{};  ///< per lane: how many phases it has arrived in
  bool waited_for_grid = false;                      ///< executed griddepcontrol.wait
  std::uint32_t cluster_met = 0;  ///< lanes that passed a cluster barrier: all blocks of the cluster run

  /// The last thing a split read from a synchronisation variable: reading it again unchanged is polling.
  struct Poll {
    std::uint32_t pc = 0xFFFFFFFF;
    std::uint64_t fingerprint = 0;
    bool unchanged = false;
    bool of_host = false;  ///< attached memory was among it
  } poll;
};

/// A named barrier of a block.
struct BlockBarrier {
  std::uint32_t expected = 0;  ///< threads; 0: all of the block
  std::uint32_t arrived = 0;
  bool open = false;  ///< somebody has arrived
  bool any_true = false;
  bool all_true = true;
  std::uint32_t count_true = 0;
  std::vector<std::uint32_t> waiting;          ///< agents that wait
  std::vector<UnitClock::Knowledge> released;  ///< of those that only arrived
};

/// An mbarrier object in shared memory.
struct Mbarrier {
  std::uint32_t expected = 0;
  std::uint32_t pending = 0;
  std::int64_t pending_bytes = 0;
  std::uint32_t phase = 0;
  UnitClock::Knowledge knowledge;               ///< of the phase under way
  UnitClock::Knowledge last_knowledge;          ///< of the completed one
  std::vector<PendingBulk> arriving;            ///< copies that will complete on it
  std::vector<UnitClock::Knowledge> committed;  ///< arrivals of tcgen05.commit that will come
  /// Of the phase under way and of the completed one, what arrivals told of tensor memory if only relaxed: times by
  /// agent (TensorOrder).
  std::vector<std::uint32_t> told;
  std::vector<std::uint32_t> last_told;
};

struct Block {
  Dim3 index;
  std::uint64_t linear = 0;
  std::uint32_t rank = 0;     ///< in the cluster
  std::uint32_t ordinal = 0;  ///< position among the blocks that are run
  std::uint32_t alive_threads = 0;
  SharedMemory shared;
  TensorMemory tensor;
  L1Cache l1;
  std::vector<Warp> warps;
  RowStorage registers;
  std::vector<std::byte> local;
  std::vector<std::uint8_t> local_written;
  std::array<BlockBarrier, 16> barriers;
  std::map<std::uint32_t, Mbarrier> mbarriers;  ///< by shared offset
  std::uint32_t proxy_fence = 0;                ///< time of the last fence.proxy.async
  /// Latest access by each agent of another block.
  std::unordered_map<std::uint32_t, std::uint32_t> remote_accesses;
  std::uint32_t cluster_passed = 0;         ///< threads that passed the cluster barrier's completed phase
  std::uint32_t cluster_first_arrival = 0;  ///< time of the first arrival in it
};

/// A cluster, or a single block: what one host thread runs at a time.
struct Unit {
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<UnitClock> clock;
  std::unique_ptr<TensorOrder> tensor_order;  ///< null in kernels without tensor memory
  std::uint32_t alive_threads = 0;
  std::uint64_t events = 0;         ///< anything that may let somebody else go on
  std::uint64_t global_events = 0;  ///< of these, visible to other units

  // barrier.cluster: all live threads arrive in a phase, then may pass its wait.
  std::uint32_t cluster_phase = 0;
  std::uint32_t cluster_arrived = 0;         ///< threads, in this phase
  std::uint32_t cluster_arrived_exited = 0;  ///< of these, gone since
  UnitClock::Knowledge cluster_gathering;    ///< released by arrivals of this phase
  UnitClock::Knowledge cluster_knowledge;    ///< by those of the completed one

  /// Warps that executed griddepcontrol.wait, of launches that note what came before it.
  struct GridWait {
    std::uint32_t agent = 0;
    std::uint32_t time = 0;
  };
  std::vector<GridWait> grid_waits;

  /// Synchronisation variables in shared memory, by block rank << 32 | offset.
  std::unordered_map<std::uint64_t, UnitClock::Knowledge> sync;

  std::uint64_t parked_version = 0;  ///< of the launch when it last found nothing to do
  bool yields = false;               ///< lets other units run, although it could go on
};

}  // namespace stitch::emulator
