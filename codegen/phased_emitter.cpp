#include "codegen/phased_emitter.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/group_class.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"
#include "kernel/program/private_table.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;
using kernel::GroupProgram;
using kernel::KernelProgram;
using Word = GroupClass::Word;

class PhasedEmitter {
 public:
  PhasedEmitter(const graph::Graph& graph, const KernelProgram& program, const GenerateOptions& options)
      : graph_(graph), program_(program), options_(options) {}

  Result<GeneratedKernel> emit() {
    layout();
    for (std::size_t p = 0; p < program_.phases.size(); ++p)
      phases_.push_back(classify(graph_, program_, p, overlapping_, options_.unwaited));
    emit_file();
    return std::move(kernel_);
  }

 private:
  // ---- layout -----------------------------------------------------------------------------------------------

  void layout() {
    kernel_.name = options_.name;
    kernel_.threads = program_.schedule.threads;
    kernel_.cluster = program_.schedule.cluster;
    kernel_.blocks = program_.blocks;
    for (std::size_t i = 0; i < program_.scratch.size(); ++i)
      kernel_.scratch.push_back({std::max<std::int64_t>(program_.scratch_bytes(i), 4), false});
    if (program_.phases.size() > 1) {
      counters_ = Buffer{Buffer::Kind::scratch, static_cast<int>(kernel_.scratch.size())};
      kernel_.scratch.push_back({slabs() * std::ssize(program_.phases) * 8, true});
    }
    kernel_.in_place = kernel::in_place_pairs(graph_, program_);
    std::set<Buffer> overlapping;
    for (const kernel::InPlace& pair : kernel_.in_place) {
      overlapping.insert({Buffer::Kind::input, pair.input});
      overlapping.insert({Buffer::Kind::output, pair.output});
    }
    overlapping_.assign(overlapping.begin(), overlapping.end());
    for (const kernel::ItemId id : kernel::unwaited_loads(program_, options_.unwaited)) {
      const GroupProgram& group = program_.phases[0].groups[0];
      kernel_.unwaited |= kernel::UnwaitedInputs{1} << group.structure.program->at(id).buffer.number;
    }
    kernel_.shared_bytes = program_.shared_bytes;
    kernel_.cooperative = program_.phases.size() > 1 && program_.blocks_wait();
  }

  [[nodiscard]] std::int64_t slabs() const { return program_.schedule.slabs.count; }

  // ---- text -------------------------------------------------------------------------------------------------

  void emit_file() {
    const bool bulk = std::ranges::any_of(program_.phases, [](const kernel::PhaseProgram& phase) {
      return std::ranges::any_of(phase.groups, [](const GroupProgram& group) { return group.ahead.bulk; });
    });
    emit_preamble(out_, options_.comment, bulk ? "bulk_copy.cuh" : "");
    emit_tables(out_, graph_, program_);
    const bool simple = program_.phases.size() == 1 && phases_[0].size() == 1 && phases_[0][0].members.size() == 1;
    if (!simple) {
      for (std::size_t p = 0; p < phases_.size(); ++p) {
        for (std::size_t c = 0; c < phases_[p].size(); ++c) emit_group_function(p, c);
      }
    }
    emit_namespace_end(out_);
    if (simple) {
      emit_simple_kernel();
    } else {
      emit_packed_kernel();
    }
    kernel_.source = out_.text();
  }

  void emit_shared() {
    if (kernel_.shared_bytes > 0) out_.line("extern __shared__ __align__(16) unsigned char shared[];");
  }

  void emit_simple_kernel() {
    const GroupClass& group = phases_[0][0];
    std::vector<std::string> parameters;
    for (const GroupPointers::Pointer& each : group.parameters) {
      parameters.push_back(pointer_parameter(each));
      kernel_.arguments.push_back({Argument::Kind::buffer, each.buffer, 0});
    }
    out_.line("// {}", group.description);
    out_.line("extern \"C\" __global__ void {}", launch_bounds(kernel_.threads, options_.blocks_per_sm));
    out_.open("{}({})", kernel_.name, fmt::join(parameters, ", "));
    emit_shared();
    const bool looped = program_.is_looped(0);
    if (looped) emit_wait(out_, group.parameters);  // else the group's code does, behind its arithmetic
    open_tiles(0, looped, false);
    append_body(out_, group.body);
    if (looped) emit_tile_end(0);
    out_.close(looped ? 1 : 0);
    if (!looped || !group.leaves_cluster) emit_cluster_end();  // or the last tile's end was it
    out_.close();
  }

  void open_tiles(std::size_t phase, bool looped, bool alone) {
    const std::int64_t tiles = program_.phases[phase].tiles;
    const int cluster = program_.schedule.cluster;
    const std::string first =
        cluster == 1 ? "static_cast<int>(blockIdx.x)" : fmt::format("static_cast<int>(blockIdx.x / {})", cluster);
    if (alone) {
      out_.open("for (int tile = 0; tile < {}; ++tile)", tiles);
    } else if (looped && program_.phases[phase].backwards) {
      out_.line("// from the end, of which L2 still has something");
      out_.open("for (int tile = {0} + ({1} - {0}) / {2} * {2}; tile >= 0; tile -= {2})", first, tiles - 1,
                program_.clusters());
    } else if (looped) {
      out_.open("for (int tile = {}; tile < {}; tile += {})", first, tiles, program_.clusters());
    } else {
      out_.line("const int tile = {};", first);
    }
  }

  /// Threads may still read the exchange buffers that the next tile writes.
  void emit_tile_end(std::size_t phase) {
    const auto& groups = program_.phases[phase].groups;
    const bool exchanges =
        std::any_of(groups.begin(), groups.end(), [](const GroupProgram& group) { return group.exchange_bytes > 0; });
    if (exchanges) out_.line("{}", program_.schedule.cluster > 1 ? cluster_end() : "__syncthreads();");
  }

  /// The whole barrier, or the half of it that a kernel of one group leaves.
  [[nodiscard]] std::string_view cluster_end() const {
    return phases_[0][0].leaves_cluster ? "cluster_wait();" : "cluster_barrier();";
  }

  /// Blocks of a cluster read each other's shared memory: none may leave before all have read.
  void emit_cluster_end() {
    if (program_.schedule.cluster > 1) out_.line("{}", cluster_end());
  }

  [[nodiscard]] static std::string function_name(std::size_t phase, std::size_t number) {
    return fmt::format("group_{}_{}", phase, number);
  }

  void emit_group_function(std::size_t phase, std::size_t number) {
    const GroupClass& group = phases_[phase][number];
    std::string parameters;
    for (const GroupPointers::Pointer& each : group.parameters) parameters += pointer_parameter(each) + ", ";
    if (group.runtime_extent) parameters += "const s64 extent, ";
    if (slabs() > 1) parameters += "const int slab, ";
    parameters += "const int tile";
    if (kernel_.shared_bytes > 0) parameters += ", unsigned char* const shared";
    out_.line("// {}{}", group.description,
              group.members.size() > 1 ? fmt::format("; {} tensors", group.members.size()) : "");
    out_.open("__device__ __forceinline__ void {}({})", function_name(phase, number), parameters);
    append_body(out_, group.body);
    out_.close();
    out_.blank();
  }

  // ---- packing ----------------------------------------------------------------------------------------------

  /// Packed kernels take one table of 8-byte words: per class a row per member (GroupClass::row).
  void emit_packed_kernel() {
    std::size_t words = 0;
    for (const auto& phase : phases_) {
      for (const GroupClass& group : phase) words += group.members.size() * group.row().size();
    }
    if (counters_) words += 1;
    out_.line("struct Table {{");
    out_.line("  u64 words[{}];", words);
    out_.line("}};");
    out_.blank();
    out_.line("extern \"C\" __global__ void {}", launch_bounds(kernel_.threads, options_.blocks_per_sm));
    out_.open("{}(const __grid_constant__ Table table)", kernel_.name);
    emit_shared();
    out_.line("const auto none = await_predecessor();");
    if (counters_) {
      kernel_.arguments.push_back({Argument::Kind::buffer, *counters_, 0});
      out_.line("u32* const counters = reinterpret_cast<u32*>(table.words[0]);");
    }
    if (slabs() > 1) {
      out_.line("#pragma unroll 1");
      out_.open("for (int slab = 0; slab < {}; ++slab)", slabs());
      // Each has its own, so that a block which is not run need be counted as arrived only once (block_sample.h).
      out_.line("u32* const arrivals = counters + slab * {};", 2 * phases_.size());
    }
    for (std::size_t p = 0; p < phases_.size(); ++p) emit_phase(p);
    if (slabs() > 1) {
      out_.line("{}  // shared memory is the next slab's",
                program_.schedule.cluster > 1 ? "cluster_barrier();" : "__syncthreads();");
      out_.close();
    }
    emit_cluster_end();
    out_.close();
  }

  /// What stands before a phase that is not the first.
  void emit_sync(std::size_t phase) {
    out_.blank();
    const std::string counter = fmt::format("{} + {}", slabs() > 1 ? "arrivals" : "counters", 2 * (phase - 1));
    const kernel::Sync sync = program_.schedule.syncs[phase - 1];
    if (sync == kernel::Sync::open) {
      out_.line("open_gate({});", gate_);
      out_.close();
    } else if (program_.runs_alone(phase - 1)) {
      out_.line("__syncthreads();");
    } else if (sync == kernel::Sync::gate) {
      gate_ = counter;
      out_.line("// for the block that arrives last, while the others wait");
      out_.open("if (arrives_last_at_gate({}, gridDim.x))", counter);
    } else if (sync == kernel::Sync::barrier) {
      const int cluster = program_.schedule.cluster;
      out_.line("grid_barrier{}({}, gridDim.x);", cluster > 1 ? fmt::format("<{}>", cluster) : "", counter);
    } else {
      out_.line("// what follows is for the block that arrives last");
      out_.line("if (!arrives_last({}, gridDim.x)) return;", counter);
    }
  }

  void emit_phase(std::size_t phase) {
    if (phase > 0) emit_sync(phase);
    const bool alone = program_.runs_alone(phase), looped = program_.is_looped(phase);
    const std::int64_t tiles = program_.phases[phase].tiles;
    const int depth = out_.depth();
    const std::optional<kernel::PrivateTable> table = kernel::private_table(graph_, program_, phase);
    if (table) emit_private_table(*table, phase);
    if (alone && tiles == 1) {
      out_.open();
      out_.line("const int tile = 0;");
    } else {
      if (!alone && !looped) out_.open();
      open_tiles(phase, looped, alone);
    }
    std::int64_t first = 0;
    std::string otherwise;
    for (std::size_t c = 0; c < phases_[phase].size(); ++c) {
      const GroupClass& group = phases_[phase][c];
      const std::int64_t last = first + group.tiles();
      const bool only = phases_[phase].size() == 1 && (looped || alone || tiles >= program_.clusters());
      if (!only) out_.open("{}if (tile < {})", otherwise, last);
      emit_call(phase, c, first, table);
      if (!only) out_.close();
      otherwise = "else ";
      first = last;
    }
    if (looped) emit_tile_end(phase);
    out_.close(out_.depth() - depth);
    if (table) emit_private_end(*table, phase);
  }

  [[nodiscard]] static std::string table_name(std::size_t phase) { return fmt::format("table_{}", phase); }

  void emit_private_table(const kernel::PrivateTable& table, std::size_t phase) {
    out_.line("// a table of the block's own, which its tiles are combined into");
    out_.line("__shared__ __align__(16) {} {}[{}];", storage_type(table.dtype), table_name(phase), table.elements);
    out_.line("clear_privately<{}, {}>({});", combiner(table.combiner), table.elements, table_name(phase));
    out_.line("__syncthreads();");
  }

  void emit_private_end(const kernel::PrivateTable& table, std::size_t phase) {
    out_.line("__syncthreads();");
    out_.line("combine_table<{}, {}>({}, {});", combiner(table.combiner), table.elements, whole_table_,
              table_name(phase));
  }

  /// Calls a class's function for the member that owns `tile`, which counts from `first` in this class.
  void emit_call(std::size_t phase, std::size_t number, std::int64_t first,
                 const std::optional<kernel::PrivateTable>& table) {
    const GroupClass& group = phases_[phase][number];
    std::string tile = first == 0 ? "tile" : fmt::format("tile - {}", first);
    emit_row_search(group, tile);
    std::string arguments;
    const std::vector<Word> row = group.row();
    for (std::size_t w = 0; w < row.size(); ++w) {
      switch (row[w].kind) {
        case Word::Kind::pointer: {
          const GroupPointers::Pointer& pointer = group.parameters[row[w].parameter];
          const bool constant = pointer.buffer.kind == Buffer::Kind::input;
          if (table && pointer.buffer == table->buffer) {
            arguments += table_name(phase) + ", ";
            whole_table_ = fmt::format("reinterpret_cast<{}*>(table.words[{}] + none)", storage_type(pointer.dtype),
                                       kernel_.arguments.size() + w);
            break;
          }
          arguments += fmt::format("reinterpret_cast<{}{}*>(row[{}] + none), ", constant ? "const " : "",
                                   storage_type(pointer.dtype), w);
          break;
        }
        case Word::Kind::extent: arguments += fmt::format("static_cast<s64>(row[{}]), ", w); break;
        case Word::Kind::first_tile: tile += fmt::format(" - static_cast<int>(row[{}])", w); break;
      }
    }
    if (slabs() > 1) arguments += "slab, ";
    arguments += tile;
    if (kernel_.shared_bytes > 0) arguments += ", shared";
    out_.line("{}({});", function_name(phase, number), arguments);
    add_rows(group);
  }

  /// Declares `row`, the words of the member that owns the tile.
  void emit_row_search(const GroupClass& group, const std::string& tile) {
    const std::size_t base = kernel_.arguments.size(), width = group.row().size();
    if (group.members.size() == 1) return out_.line("const u64* const row = table.words + {};", base);
    // Rows are sorted by their first tile: find the last that starts at or before this tile.
    out_.line("int low = 0, high = {};", group.members.size() - 1);
    out_.open("while (low < high)");
    out_.line("const int middle = (low + high + 1) / 2;");
    out_.line("if (static_cast<int>(table.words[{} + middle * {}]) <= {}) low = middle;", base + width - 1, width,
              tile);
    out_.line("else high = middle - 1;");
    out_.close();
    out_.line("const u64* const row = table.words + {} + low * {};", base, width);
  }

  void add_rows(const GroupClass& group) {
    std::int64_t tiles = 0;
    for (const GroupClass::Member& member : group.members) {
      for (const Word& word : group.row()) {
        switch (word.kind) {
          case Word::Kind::pointer:
            kernel_.arguments.push_back({Argument::Kind::buffer, member.buffers[word.parameter], 0});
            break;
          case Word::Kind::extent: kernel_.arguments.push_back({Argument::Kind::integer, {}, member.extent}); break;
          case Word::Kind::first_tile: kernel_.arguments.push_back({Argument::Kind::integer, {}, tiles}); break;
        }
      }
      tiles += member.tiles;
    }
  }

  const graph::Graph& graph_;
  const KernelProgram& program_;
  const GenerateOptions& options_;
  GeneratedKernel kernel_;
  std::vector<Buffer> overlapping_;  ///< GroupFrame::overlapping
  std::vector<std::vector<GroupClass>> phases_;
  std::optional<Buffer> counters_;
  std::string whole_table_;  ///< of the last phase with a private table: the pointer to what all blocks combine into
  std::string gate_;         ///< counter of the gate that is closed
  Writer out_;
};

}  // namespace

Result<GeneratedKernel> generate_phased(const graph::Graph& graph, const KernelProgram& program,
                                        const GenerateOptions& options) {
  return PhasedEmitter(graph, program, options).emit();
}

}  // namespace stitch::codegen
