#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/writer.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// What the code around a group decides for it.
struct GroupContext {
  std::int64_t shared_held = 0;      ///< offset of the held values in dynamic shared memory
  std::int64_t shared_exchange = 0;  ///< offset of the two exchange buffers
  std::int64_t shared_retained = 0;  ///< offset of what is retained from phase to phase
  std::int64_t tiles_at_once = 0;    ///< of a phase that loops over tiles: its step; 0: it does not
  bool runtime_extent = false;       ///< the single axis' extent is the variable `extent` (packed groups)
  bool after_sync = false;           ///< scratch and outputs may have been written by other blocks of this launch
  bool backwards = false;            ///< interleaved axes are walked from their ends
  std::span<const kernel::Buffer> passing;  ///< search::PassingStores
  /// By input: whether it lies in the block's shared memory, and changes (a state of a recurrent kernel). Null: none.
  const std::vector<bool>* changing_inputs = nullptr;
  /// By output: whether it lies in the block's shared memory, as scratch does then. Null: none does.
  const std::vector<bool>* kept_outputs = nullptr;
  bool hoisted_apart = false;  ///< hoisted loads have been made, into arrays of their names (a recurrent kernel's turn)
  /// What is kept so is stored in so many blocks of the cluster, each of which computes a part of it. 1 where every
  /// block computes all: then what goes to device memory is stored by the first one.
  int copies = 1;
};

/// Prints the code of one group for one tile (variable `tile`): index digits, loops, sweeps, reductions, stores.
///
/// Passes, in order: name the axes' digits; declare what lives across sweeps; per sweep, compute the thread-uniform
/// values, then the loops — bands of items that depend on the same axes, loads of a band before its arithmetic so that
/// they are in flight together — then finish the sweep's reductions level by level; last, leave partial results.
class GroupEmitter {
 public:
  GroupEmitter(const graph::Graph& graph, const kernel::GroupProgram& group, const kernel::Schedule& schedule,
               GroupContext context);

  /// The statements; pointers are named by pointer_name().
  std::string emit();

  /// A hoisted load, for context.hoisted_apart: an array of a thread, "[2][4]", or a scalar, "".
  struct Hoisted {
    std::string type, name, dims;
    kernel::Buffer buffer;
  };
  [[nodiscard]] std::vector<Hoisted> hoisted() const;
  /// The statements that load them. An emitter emits these or the others.
  std::string emit_hoisted_apart();

  /// Buffers in order of first use; the n-th is called pointer_name(n).
  [[nodiscard]] const std::vector<kernel::Buffer>& buffers() const { return buffers_; }
  [[nodiscard]] std::string pointer_name(std::size_t number) const;
  /// Element type that a buffer is accessed as.
  [[nodiscard]] graph::DType buffer_type(const kernel::Buffer& buffer) const { return buffer_types_.at(buffer); }

 private:
  using ItemId = kernel::ItemId;

  void find_rounded_quotients();
  void number_pointers();

  // axes and indices (group_emitter.cpp)
  void emit_digits();
  void emit_outer_loops();
  [[nodiscard]] std::string axis_name(std::size_t axis) const;
  [[nodiscard]] std::string digit(std::size_t axis, kernel::Level level) const;
  [[nodiscard]] std::string thread_digit(std::size_t axis) const;
  /// An index expression in C++; `element`: within the vector loop, where the vector axis is `base + v`.
  [[nodiscard]] std::string index_text(kernel::Index index, bool element, bool wide = false) const;
  [[nodiscard]] std::string term_text(kernel::Index atom, bool element, bool wide) const;
  [[nodiscard]] std::string axis_value(std::size_t axis, bool element) const;
  [[nodiscard]] bool is_wide(kernel::Index address) const;
  [[nodiscard]] bool has_tail(std::size_t axis) const;
  [[nodiscard]] std::string extent_text(std::size_t axis) const;
  [[nodiscard]] std::string in_range(std::size_t axis, bool element) const;
  /// Conditions that hold where every axis of `axes` is in range, joined by &&; empty when they always do.
  [[nodiscard]] std::string range_guard(std::uint64_t axes, bool element) const;
  [[nodiscard]] std::int64_t vector_extent() const;
  /// Whether a thread has a vector of what has these axes.
  [[nodiscard]] bool has_vector(std::uint64_t axes) const;
  [[nodiscard]] bool vector_tail_by_element() const;
  [[nodiscard]] bool row_is_looped() const;
  void emit_shifted_start();
  [[nodiscard]] std::string part_bounds(std::int64_t at) const;

  // items (item_emitter.cpp)
  [[nodiscard]] std::string name(ItemId id) const;
  void keep_for_sweep(ItemId id);
  [[nodiscard]] bool is_array(ItemId id) const { return arrays_.contains(id); }
  [[nodiscard]] std::string value(ItemId id, bool element) const;
  [[nodiscard]] std::string array_subscript(std::uint64_t axes, bool element) const;
  [[nodiscard]] std::string array_dims(std::uint64_t axes) const;
  [[nodiscard]] std::string item_expression(ItemId id, bool element) const;
  [[nodiscard]] std::string scalar_load(ItemId id, bool element) const;
  void emit_uniform(ItemId id);
  void emit_vector_load(ItemId id);
  void declare_array(ItemId id);
  std::string pointer(const kernel::Buffer& buffer, graph::DType dtype);
  [[nodiscard]] std::string pointer_of(const kernel::Buffer& buffer) const;
  /// How a load of the item may be cached: an enumerator of device/memory.cuh's Cached.
  [[nodiscard]] std::string_view caching(const kernel::Item& item) const;
  [[nodiscard]] bool is_passing(const kernel::Buffer& buffer) const;
  [[nodiscard]] bool is_kept(const kernel::Buffer& buffer) const;
  /// Condition under which this block stores to the buffer; empty: always.
  [[nodiscard]] std::string block_guard(const kernel::Buffer& buffer) const;

  // sweeps (sweep_emitter.cpp)
  void emit_hoisted();
  void emit_sweep(const kernel::Sweep& sweep, int stage);
  /// Items and anchors of a sweep that depend on the same axes of the thread.
  struct Band {
    std::uint64_t axes = 0;
    std::vector<ItemId> items;
    std::vector<int> anchors;
    std::uint64_t kept = 0;  ///< axes of what it takes from shared memory
  };
  std::vector<Band> bands_of(const kernel::Sweep& sweep) const;
  void emit_band(const Band& band, int stage);
  void emit_found_load(const Band& band, ItemId id);
  /// Iterations [first, last) of an axis' loop.
  struct Iterations {
    std::size_t axis = 0;
    std::int64_t first = 0, last = 0;
    bool wrapped = false;  ///< [first, all of them) and then [0, last)
  };
  [[nodiscard]] std::optional<Iterations> whole_iterations(std::uint64_t axes) const;
  void emit_looped(const std::vector<Band>& bands, int stage);
  void open_inner_loops(std::uint64_t axes, const std::optional<Iterations>& some = std::nullopt);
  void open_loop(std::size_t axis, const Iterations& iterations);
  void open_register_loops(std::uint64_t axes);
  [[nodiscard]] std::string band_guard(const Band& band) const;
  void emit_element_step(const Band& band, const std::vector<ItemId>& early, int stage, bool vector);
  [[nodiscard]] std::string stored_value(const kernel::Anchor& anchor, bool element) const;
  void emit_element(int anchor, bool element);
  void emit_vector_store(int anchor);
  [[nodiscard]] bool is_kept_in_shared(ItemId id) const;
  [[nodiscard]] bool is_copied(ItemId id, int stage) const;
  void emit_copies(const std::vector<Band>& bands, int stage);
  [[nodiscard]] std::string kept_place(ItemId id) const;
  [[nodiscard]] std::string place_in_shared(ItemId id, std::string_view pointer, std::uint64_t loops) const;
  void emit_from_shared(ItemId id, const std::string& place);
  void emit_to_shared(ItemId id, const std::string& place);

  // what is retained from phase to phase (retained_emitter.cpp)
  /// Whether an earlier phase has left it, in some rounds.
  [[nodiscard]] bool is_found(ItemId id) const;
  [[nodiscard]] std::string round_is_retained(ItemId id) const;
  [[nodiscard]] std::string retained_round(ItemId id) const;
  [[nodiscard]] std::string retained_place(ItemId id) const;
  void emit_round(ItemId id);
  void emit_retained_places();
  [[nodiscard]] std::uint64_t band_of(std::uint64_t axes) const { return axes & group_.varying; }
  [[nodiscard]] std::string replica_guard(std::uint64_t axes) const;

  // reductions (reduction_emitter.cpp)
  void declare_accumulators(int number);
  void emit_accumulate(int number, bool element);
  void finish_reductions(const std::vector<int>& plans);
  [[nodiscard]] bool partials_lie_together(const kernel::ReductionPlan& plan) const;
  void emit_exchange_write(const kernel::ReductionPlan& plan, const std::string& buffer);
  [[nodiscard]] std::vector<std::string> block_leaders(int number) const;
  void emit_exchange_read(const kernel::ReductionPlan& plan, const std::string& buffer);
  [[nodiscard]] int partial_width(const kernel::ReductionPlan& plan) const;
  void emit_partials(const std::vector<int>& plans);
  [[nodiscard]] std::string accumulator_type(int number) const;
  [[nodiscard]] std::string accumulator_op(int number) const;
  [[nodiscard]] std::string accumulator_name(int number) const;
  [[nodiscard]] std::uint64_t kept_axes(int number) const;
  [[nodiscard]] std::string kept_index(int number) const;
  [[nodiscard]] bool is_arg(int number) const;
  int open_kept_loops(int number);
  [[nodiscard]] const kernel::Anchor& anchor(int i) const { return group_.structure.anchors[i]; }

  // whole-tensor operators (scan_emitter.cpp, scatter_emitter.cpp)
  void emit_scan(int anchor);
  void emit_scatter(int anchor);
  [[nodiscard]] std::uint64_t lane_axes() const;
  [[nodiscard]] std::string array_subscript_all(std::uint64_t axes) const;

  const graph::Graph& graph_;
  const kernel::GroupProgram& group_;
  const kernel::ScalarProgram& program_;
  const kernel::Schedule& schedule_;
  GroupContext context_;
  Writer out_;
  std::vector<kernel::Buffer> buffers_;
  std::map<kernel::Buffer, graph::DType> buffer_types_;
  std::map<ItemId, std::uint64_t> arrays_;  ///< items kept as arrays, with the axes that index them
  std::vector<ItemId> sweep_arrays_;        ///< of those, the ones that end with the sweep being emitted
  std::map<ItemId, const kernel::HeldItem*> held_;
  std::uint64_t whole_axes_ = 0;  ///< axes whose end the iterations that are being emitted do not meet
  int exchanges_ = 0;
  bool alternating_ = false;
  std::set<ItemId> rounded_quotients_;  ///< divisions that must be rounded correctly
};

}  // namespace stitch::codegen
