#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/decode/address_space.h"
#include "emulator/memory/global_shadow.h"
#include "emulator/run/launch_context.h"
#include "emulator/run/product_descriptor.h"
#include "emulator/run/reporter.h"
#include "emulator/run/tile_descriptor.h"
#include "emulator/run/unit.h"
#include "emulator/tensor_map.h"

namespace stitch::emulator {

/// Combines one element of an atomic or a bulk reduction into `memory`; `flush`: subnormals of f32 become zero.
void combine_element(AtomicType type, AtomicOperation operation, bool flush, std::byte* memory, const std::byte* value);

/// Runs units (blocks, or clusters of them), one at a time, for one host thread. The scheduler makes and calls it:
///
///   std::unique_ptr<Unit> unit = interpreter.make_unit(first_ordinal);
///   switch (interpreter.run(*unit)) …       // done: recycle it; parked: run it again once others got on
///
/// and launch() adds up what each interpreter counted and found. Instructions are implemented by the members below, in
/// one interpreter_*.cpp per family, named in `handlers` by Opcode. Each gets the lanes that it executes for (those of
/// the running split whose guard holds), reads and writes register rows by slot, and says in its Step how to go on.
/// Whatever touches memory asks the shadows and reports what they find; nothing that a kernel does is an error here.
///
/// A warp is a list of splits. The one with the smallest instruction index runs first, so that lanes which branched
/// apart meet again at the join; code of functions precedes the code that calls them, for the same reason. A split
/// that only sees what it saw before (polling) lets others run first: nobody starves.
class Interpreter {
 public:
  explicit Interpreter(LaunchContext& context);

  enum class UnitState : std::uint8_t {
    done,
    parked,  ///< every warp waits for something that only another unit can change, or lets others run
    stuck,   ///< nothing outside can help
    stopped,
  };

  /// A unit for the blocks at [first, first + blocks_per_unit) of the launch's list, ready to run.
  std::unique_ptr<Unit> make_unit(std::uint32_t first_ordinal);
  /// Runs the unit until it is done or cannot go on.
  UnitState run(Unit& unit);
  /// Reports who waits where, for a unit that will never go on.
  void report_deadlock(Unit& unit);

  /// Takes a finished unit back, so that the next one reuses its memory.
  void recycle(std::unique_ptr<Unit> unit) { spare_.push_back(std::move(unit)); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const std::map<std::uint32_t, BufferTraffic>& traffic() const { return traffic_; }
  [[nodiscard]] Reporter& reporter() { return reporter_; }

 private:
  enum class Step : std::uint8_t {
    next,  ///< on to the following instruction
    jump,  ///< pc_ was set
    left,  ///< the split was changed or suspended; it has been stored
    poll,  ///< as next, and let others run
    wait,  ///< the split was suspended before it executed; it will execute the instruction later
  };
  using Handler = Step (Interpreter::*)(const Instruction&, std::uint32_t lanes);
  static const std::array<Handler, opcode_count>& handlers();

  struct Addresses {
    std::array<std::uint64_t, 32> at;
  };

  // interpreter.cpp: the instruction loop
  bool run_warp(Warp& warp);
  void run_split(std::size_t index);
  std::size_t pick_split();
  void use(Block& block, Warp& warp);
  bool tell_budget();
  WarpSplit& current_split() { return warp_->splits[split_]; }

  // interpreter_units.cpp
  void start_block(Unit& unit, Block& block, std::uint32_t ordinal);
  void start_warp(const Unit& unit, Block& block, std::uint32_t index);

  // interpreter_splits.cpp: lanes of a warp that part and meet
  void split_off(std::uint32_t lanes, std::uint32_t pc);
  /// Suspends the running split at its instruction.
  Step suspend(SplitState state);
  bool settle(Warp& warp);
  bool force_gathering(Unit& unit);
  bool awaits_warp();

  // rows
  [[nodiscard]] std::byte* row(Slot slot) const { return bases_[slot & 1] + (slot & ~constant_bit); }
  template <class T>
  [[nodiscard]] T* row_of(Slot slot) const {
    return reinterpret_cast<T*>(row(slot));
  }
  [[nodiscard]] std::uint32_t mask_of(Slot slot) const {
    std::uint32_t mask = 0;
    std::memcpy(&mask, row(slot), sizeof(mask));
    return mask;
  }
  void set_mask(Slot slot, std::uint32_t lanes, std::uint32_t value) const {
    const std::uint32_t merged = (mask_of(slot) & ~lanes) | (value & lanes);
    std::memcpy(row(slot), &merged, sizeof(merged));
  }
  template <class T>
  void set_row(Slot slot, std::uint32_t lanes, const T* values) const {
    T* to = row_of<T>(slot);
    if (full(lanes)) {
      std::memcpy(to, values, 32 * sizeof(T));
      return;
    }
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (((lanes >> lane) & 1) != 0) to[lane] = values[lane];
    }
  }
  /// Lanes whose rows may be overwritten when `lanes` execute: those that no longer or never existed count as well.
  [[nodiscard]] bool full(std::uint32_t lanes) const { return (lanes | ~warp_->alive) == 0xFFFFFFFF; }

  // interpreter_findings.cpp
  void check_tracked(const Instruction& in, std::uint32_t lanes);
  void check_products(const Instruction& in, std::uint32_t lanes);
  [[nodiscard]] ThreadPlace place(std::uint32_t lane) const;
  template <class F>
  void report(Detector detector, std::uint32_t lane, F&& describe) {
    reporter_.report(detector, pc_, place(lane), std::forward<F>(describe));
  }
  [[nodiscard]] std::string name_agent(const Unit& unit, std::uint32_t agent) const;

  // interpreter_lanes.cpp
  Step lane(const Instruction& in, std::uint32_t lanes);
  Step special(const Instruction& in, std::uint32_t lanes);
  Step to_generic(const Instruction& in, std::uint32_t lanes);
  Step from_generic(const Instruction& in, std::uint32_t lanes);
  Step is_space(const Instruction& in, std::uint32_t lanes);
  Step map_shared(const Instruction& in, std::uint32_t lanes);
  Step block_rank(const Instruction& in, std::uint32_t lanes);
  void thread_index(SpecialRegister reg, std::uint32_t* values) const;
  [[nodiscard]] std::uint64_t special_value(SpecialRegister reg, std::uint32_t lane) const;

  // interpreter_control.cpp
  Step branch(const Instruction& in, std::uint32_t lanes);
  Step branch_indexed(const Instruction& in, std::uint32_t lanes);
  Step call(const Instruction& in, std::uint32_t lanes);
  Step function_return(const Instruction& in, std::uint32_t lanes);
  Step exit(const Instruction& in, std::uint32_t lanes);
  Step trap(const Instruction& in, std::uint32_t lanes);
  Step device_call(const Instruction& in, std::uint32_t lanes);
  Step pause(const Instruction& in, std::uint32_t lanes);
  Step nothing(const Instruction& in, std::uint32_t lanes);
  Step grid_wait(const Instruction& in, std::uint32_t lanes);
  [[nodiscard]] bool is_early() const;
  void retire(std::uint32_t lanes);
  void check_block_end(Block& block);
  Step go_to(std::span<const std::uint32_t, 32> targets, std::uint32_t lanes);

  // interpreter_memory.cpp, interpreter_global.cpp, interpreter_shared.cpp
  Step load(const Instruction& in, std::uint32_t lanes);
  Step store(const Instruction& in, std::uint32_t lanes);
  void gather_addresses(const Instruction& in, Addresses& addresses) const;
  void move_to_registers(const Instruction& in, const MemoryAccess& access, std::uint32_t lanes);
  void move_to_staging(const Instruction& in, const MemoryAccess& access);
  bool load_parameter(const Instruction& in, const MemoryAccess& access, std::uint32_t lanes);
  void load_space(Space space, const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes);
  void store_space(Space space, const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes);
  /// Calls use(space, addresses in it, lanes) for every space that generic addresses lead to.
  template <class F>
  void for_each_space(const Addresses& addresses, std::uint32_t lanes, F&& use);
  std::uint32_t drop_misaligned(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes);

  struct SharedTarget {
    Block* block = nullptr;
    std::uint32_t offset = 0;
  };
  enum class Touch : std::uint8_t { read, write, update };
  void access_global(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes, Touch touch,
                     bool counted);
  void global_run(MemoryRegion& region, std::uint64_t address, std::uint32_t bytes, std::uint32_t first_lane,
                  Touch touch, const MemoryAccess& access);
  void report_global(const GlobalOutcome& outcome, const MemoryRegion& region, std::uint32_t lane, Touch touch,
                     bool changes = true);
  [[nodiscard]] GlobalAccessor global_accessor(bool strong, bool read_only) const;
  /// Indices of 32-byte sectors; a warp's lanes of 16 bytes touch at most two each.
  using Sectors = std::array<std::uint64_t, 64>;
  static std::uint32_t find_sectors(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes,
                                    Sectors& seen);
  static std::uint32_t count_sectors(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes);
  /// After an acquire: beyond the block, what L1 holds may be stale.
  void acquired(Scope scope) {
    if (scope == Scope::cluster || scope == Scope::device || scope == Scope::system) block_->l1.invalidate();
  }
  std::uint32_t load_through_l1(const Sectors& sectors, std::uint32_t count, bool allocates);
  MemoryRegion* region_of(std::uint64_t address, std::uint64_t bytes, std::uint32_t lane, Touch touch,
                          std::string_view what);
  BufferTraffic& traffic_of(const MemoryRegion& region);
  void access_shared(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes, Touch touch,
                     bool cluster);
  bool shared_target(std::uint64_t address, std::uint32_t bytes, bool cluster, std::uint32_t lane,
                     SharedTarget& target);
  [[nodiscard]] SharedAccessor shared_accessor(const Block& target, std::uint32_t lane, bool strong) const;
  void report_shared(const SharedOutcome& outcome, std::uint32_t lane, bool writes, bool changes = true);
  void note_remote(Block& target);
  void count_wavefronts(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes);
  void access_local(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes, Touch touch,
                    bool counted);
  void access_parameters(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes);

  // interpreter_atomic.cpp
  Step atomic(const Instruction& in, std::uint32_t lanes);
  void atomic_global(const Instruction& in, const AtomicAccess& access, const Addresses& addresses,
                     std::uint32_t lanes);
  void atomic_shared(const Instruction& in, const AtomicAccess& access, const Addresses& addresses, std::uint32_t lanes,
                     bool cluster);
  bool update_memory(std::byte* memory, const Instruction& in, const AtomicAccess& access, std::uint32_t lane,
                     bool global);
  void order_global(std::uint64_t address, Semantics semantics, Scope scope, bool reads, bool writes, bool replaces);
  void order_shared(const SharedTarget& target, Semantics semantics, bool reads, bool writes);
  bool is_polling(std::uint64_t fingerprint);
  [[nodiscard]] bool reads_host(Space space, const Addresses& addresses, std::uint32_t lanes) const;

  // interpreter_barrier.cpp
  Step barrier(const Instruction& in, std::uint32_t lanes);
  void arrive(BlockBarrier& barrier, const Instruction& in, std::uint32_t lanes, std::uint32_t index);
  void complete_barriers(Unit& unit, Block& block);
  void release_barrier(Unit& unit, Block& block, BlockBarrier& barrier, std::uint32_t index);
  Step cluster_arrive(const Instruction& in, std::uint32_t lanes);
  Step cluster_wait(const Instruction& in, std::uint32_t lanes);
  void complete_cluster_barrier(Unit& unit);
  Step fence(const Instruction& in, std::uint32_t lanes);

  // interpreter_warp.cpp
  Step shuffle(const Instruction& in, std::uint32_t lanes);
  Step vote(const Instruction& in, std::uint32_t lanes);
  Step match(const Instruction& in, std::uint32_t lanes);
  Step reduce_lanes(const Instruction& in, std::uint32_t lanes);
  Step active_mask(const Instruction& in, std::uint32_t lanes);
  Step elect(const Instruction& in, std::uint32_t lanes);
  Step warp_barrier(const Instruction& in, std::uint32_t lanes);
  void shuffle_group(const Instruction& in, std::uint32_t members);
  void match_group(const Instruction& in, std::uint32_t members);
  void meet(std::uint32_t named, std::uint32_t group);
  template <class F>
  Step for_each_group(Slot mask, std::uint32_t lanes, F&& use);

  // interpreter_async.cpp, interpreter_mbarrier.cpp
  Step copy_async(const Instruction& in, std::uint32_t lanes);
  Step copy_async_commit(const Instruction& in, std::uint32_t lanes);
  Step copy_async_wait(const Instruction& in, std::uint32_t lanes);
  Step copy_async_arrive(const Instruction& in, std::uint32_t lanes);
  void land_copies(std::uint32_t lane, std::uint32_t groups);
  Step bulk_copy(const Instruction& in, std::uint32_t lanes);
  Step bulk_commit(const Instruction& in, std::uint32_t lanes);
  Step bulk_wait(const Instruction& in, std::uint32_t lanes);
  void issue_bulk(const Instruction& in, const BulkAccess& access, std::uint32_t lane);
  void land_bulk_store(PendingBulk& copy);
  void reduce_into_global(MemoryRegion& region, const PendingBulk& copy, std::uint32_t at, std::uint32_t length);
  void land_bulk_arrival(PendingBulk& copy);
  bool read_run_for_bulk(std::uint64_t address, std::uint32_t bytes, std::uint32_t lane, std::vector<std::byte>& data,
                         bool is_request);
  void send_to_shared(const Instruction& in, const BulkAccess& access, PendingBulk copy, const SharedTarget& target,
                      std::uint32_t lane);
  bool read_for_bulk(Space space, std::uint64_t address, std::uint32_t bytes, std::uint32_t lane,
                     std::vector<std::byte>& data);
  Step store_async(const Instruction& in, std::uint32_t lanes);
  Step mbarrier_init(const Instruction& in, std::uint32_t lanes);
  Step mbarrier_invalidate(const Instruction& in, std::uint32_t lanes);
  Step mbarrier_arrive(const Instruction& in, std::uint32_t lanes);
  Step mbarrier_test(const Instruction& in, std::uint32_t lanes);
  Step mbarrier_count(const Instruction& in, std::uint32_t lanes);
  Mbarrier* find_mbarrier(std::uint64_t address, Space space, std::uint32_t lane, SharedTarget& target);
  void arrive_on(Mbarrier& barrier, std::uint32_t count, bool drop, std::uint32_t lane);
  void complete_phase(Mbarrier& barrier);
  void land_arrivals(Mbarrier& barrier);

  // interpreter_tensor.cpp
  struct TensorBox;
  Step tensor_copy(const Instruction& in, std::uint32_t lanes);
  Step tensor_map_replace(const Instruction& in, std::uint32_t lanes);
  Step tensor_map_copy(const Instruction& in, std::uint32_t lanes);
  bool read_tensor_map(std::uint64_t address, std::uint32_t lane, TensorMap& map);
  template <class F>
  void change_tensor_map(std::uint64_t address, Space space, std::uint32_t lane, F&& change);
  void load_box(const Instruction& in, const TensorBox& box, std::uint64_t shared, std::uint32_t lane);
  void store_box(const Instruction& in, const TensorBox& box, std::uint64_t shared, std::uint32_t lane);
  static AtomicType reduction_type(TensorMapType type);

  // interpreter_matrix.cpp, interpreter_wgmma.cpp
  Step load_matrix(const Instruction& in, std::uint32_t lanes);
  Step store_matrix(const Instruction& in, std::uint32_t lanes);
  Step mma(const Instruction& in, std::uint32_t lanes);
  struct Factors;
  void read_factors(const MatrixForm& form, const Slot* a_slots, const Slot* b_slots, Factors& factors) const;
  std::span<const std::uint32_t, 32> sparse_metadata(const MatrixForm& form, Slot slot);
  Step wgmma(const Instruction& in, std::uint32_t lanes);
  Step wgmma_fence(const Instruction& in, std::uint32_t lanes);
  Step wgmma_commit(const Instruction& in, std::uint32_t lanes);
  Step wgmma_wait(const Instruction& in, std::uint32_t lanes);
  static double tile_element(Block& block, const TileDescriptor& tile, bool transposed, std::uint32_t row,
                             std::uint32_t column, MatrixType type);
  void check_tile(std::uint64_t descriptor, bool transposed, std::uint32_t rows, std::uint32_t k_count,
                  MatrixType type);

  // interpreter_tmem.cpp, interpreter_tmem_copy.cpp, interpreter_tensor_core.cpp: tcgen05
  struct TmemUse;
  struct TensorProduct;
  Step tmem_allocation(const Instruction& in, std::uint32_t lanes);
  Step tmem_load(const Instruction& in, std::uint32_t lanes);
  Step tmem_store(const Instruction& in, std::uint32_t lanes);
  Step tmem_wait(const Instruction& in, std::uint32_t lanes);
  Step tmem_fence(const Instruction& in, std::uint32_t lanes);
  Step tmem_commit(const Instruction& in, std::uint32_t lanes);
  Step tmem_copy(const Instruction& in, std::uint32_t lanes);
  Step tmem_shift(const Instruction& in, std::uint32_t lanes);
  Step tmem_product(const Instruction& in, std::uint32_t lanes);
  bool whole_warp(std::uint32_t lanes, std::string_view what);
  Step allocate_tmem(const Instruction& in, std::uint32_t count);
  void free_tmem(std::uint32_t address, std::uint32_t count);
  bool tmem_base(const Instruction& in, TmemPlace& base);
  void touch_tmem(TmemUse& use, Block& block, TmemPlace at, bool writes);
  void report_tmem(const TmemUse& use, std::uint32_t lane);
  bool check_pairing(const TensorCoreForm& form, std::uint32_t lane);
  Block& pair_block(std::uint32_t blocks, std::uint32_t part);
  void tell_tensor_order(Mbarrier& barrier);
  void land_commits(Mbarrier& barrier);
  void read_tile_for_tensor_core(Block& block, const TileDescriptor& tile, bool transposed, std::uint32_t rows,
                                 std::uint32_t k_count, std::uint32_t width, std::uint32_t lane);
  std::uint32_t read_tmem(TmemUse& use, Block& block, TmemPlace at, bool noted);
  void multiply(const Instruction& in, std::uint32_t lane);
  bool read_a(const Instruction& in, TensorProduct& product);
  void read_a_from_tmem(Block& block, std::uint32_t part, std::uint32_t address, TensorProduct& product);
  bool read_b(const Instruction& in, TensorProduct& product);
  void accumulate(const Instruction& in, TensorProduct& product);
  void scale_blocks(const Instruction& in, std::uint32_t part, TensorProduct& product);
  static double product_element(Block& block, const TileDescriptor& tile, bool transposed, std::uint32_t row,
                                std::uint32_t k, MatrixType type, std::uint32_t container);
  bool check_product_tile(const TileDescriptor& tile, bool transposed, std::uint32_t depth, std::uint32_t width,
                          std::string_view name, std::uint32_t lane);
  void read_metadata(const Instruction& in, TensorProduct& product);
  void copy_to_tmem(const Instruction& in, std::uint32_t lane);
  void shift_tmem(const Instruction& in, std::uint32_t lane);

  std::vector<std::unique_ptr<Unit>> spare_;
  LaunchContext& context_;
  const Code& code_;
  Reporter reporter_;
  Counters counters_;
  std::map<std::uint32_t, BufferTraffic> traffic_;

  // The unit, block, warp and split that run.
  Unit* unit_ = nullptr;
  Block* block_ = nullptr;
  Warp* warp_ = nullptr;
  std::size_t split_ = 0;
  std::uint32_t pc_ = 0;
  std::uint32_t active_ = 0;
  std::uint32_t limit_ = 0;       ///< smallest index at which another ready split waits
  std::int64_t quantum_ = 0;      ///< backward jumps left in this turn
  std::uint64_t turn_start_ = 0;  ///< executed_ when the warp's turn began
  std::uint64_t executed_ = 0;    ///< warp instructions since the shared total was last told
  std::array<std::byte*, 2> bases_{};
  std::uint32_t last_region_ = 0xFFFFFFFF;
  BufferTraffic* last_traffic_ = nullptr;

  /// Bytes between registers and memory, lane-major.
  alignas(64) std::array<std::byte, std::size_t{32} * 32> staging_{};
  alignas(64) std::array<std::byte, 512> scratch_{};
};

template <class F>
void Interpreter::for_each_space(const Addresses& addresses, std::uint32_t lanes, F&& use) {
  const auto space_of = [](std::uint64_t address) {
    if (address - shared_window < window_bytes) return Space::shared_cluster;
    if (address - local_window < window_bytes) return Space::local;
    if (address - parameter_window < window_bytes) return Space::parameter;
    return Space::global;
  };
  for (std::uint32_t rest = lanes; rest != 0;) {
    const Space space = space_of(addresses.at[std::countr_zero(rest)]);
    std::uint32_t together = 0;
    Addresses within;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (((rest >> lane) & 1) == 0 || space_of(addresses.at[lane]) != space) continue;
      together |= 1U << lane;
      within.at[lane] = space == Space::global ? addresses.at[lane] : addresses.at[lane] & (window_bytes - 1);
    }
    use(space, within, together);
    rest &= ~together;
  }
}

}  // namespace stitch::emulator
