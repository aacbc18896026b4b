#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/counters.h"
#include "emulator/lanes/lane_op.h"

namespace stitch::emulator {

/// What a decoded instruction does; each has one implementation in an interpreter_*.cpp.
enum class Opcode : std::uint8_t {
  lane,          ///< a row of the lane-operation table
  special,       ///< reads a special register
  load,          ///< ld, ldu on any space
  store,         ///< st on any space
  atomic,        ///< atom, red on global and shared memory
  to_generic,    ///< cvta: adds a window's base
  from_generic,  ///< cvta.to: subtracts it
  is_space,      ///< isspacep
  map_shared,    ///< mapa
  block_rank,    ///< getctarank
  branch,
  branch_indexed,
  call,
  function_return,
  exit,
  trap,
  device_call,  ///< vprintf, __assertfail
  pause,        ///< nanosleep
  nothing,      ///< hints: prefetch, createpolicy with a value, setmaxnreg, griddepcontrol.launch_dependents, …
  grid_wait,    ///< griddepcontrol.wait
  barrier,      ///< bar, barrier.cta
  warp_barrier,
  cluster_arrive,
  cluster_wait,
  fence,
  shuffle,
  vote,
  match,
  reduce_lanes,  ///< redux.sync
  active_mask,
  elect,
  copy_async,         ///< cp.async
  copy_async_commit,  ///< cp.async.commit_group
  copy_async_wait,    ///< cp.async.wait_group, wait_all
  copy_async_arrive,  ///< cp.async.mbarrier.arrive
  mbarrier_init,
  mbarrier_invalidate,
  mbarrier_arrive,  ///< arrive, arrive_drop, arrive.expect_tx, expect_tx, complete_tx
  mbarrier_test,    ///< test_wait, try_wait
  mbarrier_count,   ///< pending_count
  bulk_copy,        ///< cp.async.bulk, cp.reduce.async.bulk
  bulk_commit,
  bulk_wait,
  store_async,  ///< st.async
  load_matrix,
  store_matrix,
  mma,
  wgmma,
  wgmma_fence,
  wgmma_commit,
  wgmma_wait,
  tensor_copy,         ///< cp.async.bulk.tensor, cp.reduce.async.bulk.tensor
  tensor_map_replace,  ///< tensormap.replace
  tensor_map_copy,     ///< tensormap.cp_fenceproxy
  tmem_allocation,     ///< tcgen05.alloc, dealloc, relinquish_alloc_permit
  tmem_load,           ///< tcgen05.ld
  tmem_store,          ///< tcgen05.st
  tmem_wait,           ///< tcgen05.wait
  tmem_fence,          ///< tcgen05.fence
  tmem_copy,           ///< tcgen05.cp
  tmem_shift,          ///< tcgen05.shift
  tmem_commit,         ///< tcgen05.commit
  tmem_product,        ///< tcgen05.mma
};
inline constexpr std::size_t opcode_count = static_cast<std::size_t>(Opcode::tmem_product) + 1;

/// Where an operand's row lies: a byte offset into the warp's register file, or, with the lowest bit set, into the
/// launch's constant rows.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = 0xFFFFFFFF;
inline constexpr Slot constant_bit = 1;

enum class SpecialRegister : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  current_graph_exec,
  driver_word,          ///< %envreg0: nothing that a kernel knows of
  grid_workspace_high,  ///< %envreg1, %envreg2: where the barrier of a cooperative launch lies, 0 in others
  grid_workspace_low,
};

enum class Space : std::uint8_t {
  generic,
  global,
  constant,
  shared,          ///< the block's own
  shared_cluster,  ///< any block's of the cluster
  local,
  parameter,  ///< of the kernel
  frame,      ///< parameters of device functions: per-thread memory that is not counted as local traffic
};

enum class Scope : std::uint8_t { none, block, cluster, device, system };

/// Memory ordering of an access; `weak` is an ordinary one.
enum class Semantics : std::uint8_t { weak, relaxed, acquire, release, acquire_release };

constexpr bool acquires(Semantics s) { return s == Semantics::acquire || s == Semantics::acquire_release; }
constexpr bool releases(Semantics s) { return s == Semantics::release || s == Semantics::acquire_release; }

/// What a load does with the SM's L1 cache.
enum class L1Use : std::uint8_t { allocates, looks, passes };

/// How ld, st and st.async touch memory.
struct MemoryAccess {
  Space space = Space::generic;
  Semantics semantics = Semantics::weak;
  Scope scope = Scope::none;
  std::uint8_t element_bytes = 4;
  std::uint8_t elements = 1;  ///< 2, 4 or 8 for vectors
  bool sign_extend = false;
  bool read_only = false;  ///< .nc
  L1Use l1 = L1Use::allocates;
  Width register_width = Width::b32;

  [[nodiscard]] std::uint32_t bytes() const { return std::uint32_t{element_bytes} * elements; }
  [[nodiscard]] bool strong() const { return semantics != Semantics::weak; }
};

enum class AtomicOperation : std::uint8_t {
  add,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare_swap,
  increment,
  decrement
};
enum class AtomicType : std::uint8_t { u32, s32, u64, s64, f32, f64, f16, bf16, f16x2, bf16x2, b16, b32, b64, b128 };

struct AtomicAccess {
  Space space = Space::generic;
  Semantics semantics = Semantics::relaxed;
  Scope scope = Scope::device;
  AtomicOperation operation = AtomicOperation::add;
  AtomicType type = AtomicType::u32;
  std::uint8_t element_bytes = 4;
  std::uint8_t elements = 1;
  bool returns = false;
};

enum class BarrierMode : std::uint8_t { sync, arrive, reduce_and, reduce_or, reduce_popc };
enum class ShuffleMode : std::uint8_t { up, down, butterfly, index };
enum class VoteMode : std::uint8_t { all, any, uniform, ballot };
enum class LaneReduction : std::uint8_t { add, min, max, bit_and, bit_or, bit_xor, min_abs, max_abs, min_nan, max_nan };

enum class MbarrierAction : std::uint8_t { arrive, arrive_drop, expect, arrive_expect, complete };
struct MbarrierAccess {
  Space space = Space::shared;
  MbarrierAction action = MbarrierAction::arrive;
  bool no_complete = false;
  bool parity = false;
  Semantics semantics = Semantics::release;
  Scope scope = Scope::block;
};

enum class BulkKind : std::uint8_t { global_to_shared, shared_to_global, shared_to_shared };
struct BulkAccess {
  BulkKind kind = BulkKind::global_to_shared;
  bool multicast = false;
  bool reduces = false;
  bool paired = false;           ///< .cta_group::2: the mbarrier may be the peer's, of the receiving block's pair
  std::uint8_t tensor_rank = 0;  ///< of a copy by a tensor map
  AtomicOperation operation = AtomicOperation::add;
  AtomicType type = AtomicType::u32;
};

/// What tensormap.replace changes.
enum class TensorMapField : std::uint8_t {
  global_address,
  rank,
  box,
  size,
  stride,
  element_stride,
  type,
  interleave,
  swizzle,
  atomicity,
  fill
};

enum class MatrixType : std::uint8_t {
  f16,
  bf16,
  tf32,
  f32,
  f64,
  s8,
  u8,
  s32,
  b1,
  s4,
  u4,
  e4m3,
  e5m2,
  e2m3,
  e3m2,
  e2m1
};

/// Elements of a chunk of a sparse row, half of which are kept.
constexpr std::uint32_t sparse_chunk(MatrixType type) {
  if (type == MatrixType::tf32) return 2;
  return type == MatrixType::s4 || type == MatrixType::u4 ? 8 : 4;
}

struct MatrixForm {
  std::uint16_t m = 16;
  std::uint16_t n = 8;
  std::uint16_t k = 16;
  MatrixType a = MatrixType::f16;
  MatrixType b = MatrixType::f16;
  MatrixType accumulator = MatrixType::f32;
  bool saturate = false;
  bool differs = false;  ///< b1: counts where the bits differ, instead of where both are set
  /// Half of A's elements are zero and not stored; metadata, the last of the operands' list, says which (PTX ISA,
  /// "Sparse matrix storage"). k counts all of them.
  bool sparse = false;
  bool ordered = false;       ///< sp::ordered_metadata: the indices of a chunk ascend
  std::uint8_t selector = 0;  ///< which lanes of four hold the metadata
  // wgmma, tcgen05.mma
  bool a_in_registers = false;
  bool transpose_a = false;
  bool transpose_b = false;
  bool negate_a = false;
  bool negate_b = false;

  /// Elements of a row of A that are stored.
  [[nodiscard]] std::uint32_t stored_k() const { return sparse ? k / 2U : k; }
};

/// One decoded instruction. Which fields mean what is said where the opcode is executed.
struct Instruction {
  Opcode opcode = Opcode::nothing;
  InstructionClass kind = InstructionClass::control;
  Width d_width = Width::none;
  std::uint8_t form = 0;  ///< mode, space or special register, by opcode
  std::uint16_t lane_op = 0;
  bool counted = true;  ///< false for the further steps of one PTX instruction
  bool guard_inverted = false;
  bool tracked = false;  ///< reads or writes registers that may be read before they are written
  bool uniform = false;  ///< .uni, .aligned
  std::uint16_t list_count = 0;
  Slot guard = no_slot;
  Slot d = no_slot;
  Slot d2 = no_slot;
  Slot a = no_slot;
  Slot b = no_slot;
  Slot c = no_slot;
  Slot e = no_slot;
  std::uint32_t list = 0;    ///< first of list_count entries of Code::lists
  std::uint32_t target = 0;  ///< branch: instruction index; call: function; branch_indexed: table
  std::uint32_t detail = 0;  ///< index into the table of accesses or forms of the opcode
  std::uint64_t immediate = 0;

  template <class Mode>
  void set_form(Mode mode) {
    form = static_cast<std::uint8_t>(mode);
  }
  template <class Mode>
  [[nodiscard]] Mode form_as() const {
    return static_cast<Mode>(form);
  }
  template <class Mode>
  void set_detail(Mode mode) {
    detail = static_cast<std::uint32_t>(mode);
  }
  template <class Mode>
  [[nodiscard]] Mode detail_as() const {
    return static_cast<Mode>(detail);
  }
};

}  // namespace stitch::emulator
