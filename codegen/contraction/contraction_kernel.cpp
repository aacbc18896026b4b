#include "codegen/contraction/contraction_kernel.h"

#include <algorithm>

#include "codegen/contraction/computed_text.h"
#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/gate_text.h"
#include "codegen/contraction/merged_text.h"
#include "codegen/contraction/realigned_text.h"
#include "codegen/contraction/result_text.h"
#include "codegen/contraction/row_text.h"
#include "codegen/contraction/scale_text.h"
#include "codegen/contraction/streamed_text.h"
#include "codegen/contraction/summed_text.h"
#include "codegen/contraction/tensor_copy_text.h"
#include "codegen/contraction/tensor_memory_text.h"
#include "codegen/contraction/warpgroup_text.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/realigned_copy.h"
#include "kernel/contraction/shown_depth.h"
#include "kernel/pipeline/pipelining.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;
using kernel::Index;
namespace pipeline = kernel::pipeline;
using pipeline::TileNest;
using pipeline::TileStatement;
using Kind = TileStatement::Kind;

/// Buffers of the nest, in this order.
enum NestBuffer : int { left_memory, right_memory, left_tile, right_tile, left_part, right_part };

class ContractionPrinter {
 public:
  ContractionPrinter(const ContractionProblem& problem, const ContractionSchedule& schedule,
                     const GenerateOptions& options)
      : problem_(problem), schedule_(schedule), options_(options), shape_(kernel::shape_of(problem, schedule)) {}

  Result<GeneratedKernel> print() {
    for (std::size_t p = 0; p < kernel::parts_of(problem_).size(); ++p) {
      STITCH_ASSIGN(ContractionEpilogues part,
                    print_epilogues(kernel::parts_of(problem_)[p], epilogue_name(problem_, p)));
      epilogues_.push_back(std::move(part));
    }
    add_arguments();
    print_head(out_, options_, kernel::to_string(problem_), kernel::to_string(schedule_),
               in_tensor_memory(schedule_.instruction) ? "tensor_memory.cuh"
               : schedule_.tensor_copies               ? "tensor_copy.cuh"
               : is_warpgroup(schedule_.instruction)   ? "warpgroup.cuh"
                                                       : "contraction.cuh",
               !problem_.column_sums.empty() ? "column_sums.cuh"
               : combines_rows()             ? "row_totals.cuh"
                                             : "",
               scaled() || promotes(schedule_.instruction) ? "scaled_sums.cuh" : "",
               kernel::holds_realigned(schedule_) ? "realigned_tile.cuh" : "");
    STITCH_TRY(print_operands());
    if (is_warpgroup(schedule_.instruction)) print_wgmma(out_, "Product", problem_, schedule_);
    if (in_tensor_memory(schedule_.instruction)) print_tensor_product(out_, problem_, schedule_);
    if (schedule_.tensor_copies) STITCH_TRY(print_tensor_maps(out_, problem_, schedule_));
    const std::string cores =
        cores_of(problem_, schedule_, "Left", "Right", kernel::core_run(problem_.left, schedule_.thread_rows));
    if (scaled()) STITCH_TRY(print_scales(out_, problem_));
    out_.line("using Cores = {};", scaled()                          ? scaled_cores(problem_, schedule_, cores)
                                   : promotes(schedule_.instruction) ? fmt::format("PromotedCores<{}>", cores)
                                                                     : cores);
    out_.blank();
    for_each_function([&](const ContractionEpilogue& epilogue) { out_.append(epilogue.code); });
    out_.blank();
    emit_namespace_end(out_);
    STITCH_TRY(print_kernel());
    kernel_.name = options_.name;
    kernel_.source = out_.text();
    kernel_.blocks = shape_.grid;
    kernel_.cluster = schedule_.cluster * schedule_.row_blocks;
    kernel_.threads = shape_.threads;
    kernel_.shared_bytes = shape_.shared_bytes;
    return std::move(kernel_);
  }

 private:
  Status print_operands() {
    const bool whole_depth = has_whole_depth(problem_, schedule_);
    const TileText left = {schedule_.block_rows, schedule_.block_depth, schedule_.left_copy,
                           schedule_.swizzle,    reads_tiles(),         problem_.rows % schedule_.block_rows == 0,
                           whole_depth};
    if (const kernel::ComputedOperand* computed = kernel::computed_side(problem_, true)) {
      STITCH_TRY(print_computed_operand(out_, "Left", problem_, *computed, left));
    } else if (summed()) {
      print_operand_of_terms(out_, problem_, true, left);
    } else {
      print_operand(out_, "Left", problem_.left, problem_.rows, problem_.contracted, left);
      if (schedule_.left_realigned) print_realigned(out_, problem_, true);
    }
    const bool whole_columns = std::ranges::all_of(kernel::parts_of(problem_), [&](const ContractionProblem& part) {
      return part.columns % schedule_.block_columns == 0;
    });
    const TileText right = {right_columns(schedule_),
                            schedule_.block_depth,
                            schedule_.right_copy,
                            schedule_.swizzle,
                            reads_tiles(),
                            whole_columns,
                            whole_depth};
    if (const kernel::ComputedOperand* computed = kernel::computed_side(problem_, false))
      return print_computed_operand(out_, "Right", problem_, *computed, right);
    if (summed()) {
      print_operand_of_terms(out_, problem_, false, right);
    } else if (!problem_.members.empty()) {
      print_right_of_members(out_, problem_, right);
    } else if (problem_.other_right) {
      print_right_of_gates(out_, problem_, right);
    } else {
      print_operand(out_, "Right", problem_.right, problem_.columns, problem_.contracted, right);
      if (schedule_.right_realigned) print_realigned(out_, problem_, false);
    }
    return {};
  }

  /// Parameters that are read, results, and what blocks of a split tile share.
  void add_arguments() {
    std::set<int> read;
    for (const kernel::ContractionOperand* operand : kernel::left_operands(problem_)) read.insert(operand->parameter);
    for (const kernel::ContractionOperand* operand : kernel::right_operands(problem_)) read.insert(operand->parameter);
    if (problem_.other_right) read.insert(problem_.other_right->parameter);
    for (const kernel::ComputedOperand& computed : problem_.computed) {
      read.erase(computed.parameter);
      read.insert(computed.reads.begin(), computed.reads.end());
    }
    if (scaled()) read.insert(problem_.scales->reads.begin(), problem_.scales->reads.end());
    for_each_function([&](const ContractionEpilogue& epilogue) {
      read.insert(epilogue.parameters.begin(), epilogue.parameters.end());
    });
    if (epilogues_.size() == 1) kernel_.in_place = epilogues_.front().in_place;
    arguments_.add_tensors(*problem_.graph, read, kernel_.in_place);
    if (schedule_.tensor_copies) {
      kernel_.scratch = {{tensor_maps_bytes(problem_, schedule_), true}};
      arguments_.add({kernel::Buffer::Kind::scratch, 0},
                     fmt::format("KeptMaps<{}>* __restrict__ maps", kernel::tensor_maps(problem_) - 1));
    }
    if (shape_.arrivals == 0) return;
    kernel_.scratch = {{shape_.scratch_bytes, false}, {4 * shape_.arrivals, true}};
    arguments_.add({kernel::Buffer::Kind::scratch, 0}, fmt::format("{}* __restrict__ parts", sum_type()));
    arguments_.add({kernel::Buffer::Kind::scratch, 1}, "u32* __restrict__ arrived");
  }

  Status print_kernel() {
    out_.line("extern \"C\" __global__ void {}", launch_bounds(shape_.threads, schedule_.blocks_per_sm));
    out_.open("{}({})", options_.name, arguments_.text());
    const std::string wait = arguments_.wait(problem_.contracted == 0);
    if (shape_.tiles == 0) {
      out_.line("{}", wait);
      out_.close();
      return {};
    }
    out_.line("extern __shared__ __align__({}) unsigned char shared[];", reads_tiles() ? 1024 : 128);
    if (schedule_.tensor_copies) {
      STITCH_TRY(print_staying_blocks(out_, problem_, schedule_, wait, [&] { print_end(); }));
      out_.close();
      return {};
    }
    if (is_streamed()) {
      out_.line("{}", wait);
      open_streamed_tiles(out_, shape_, schedule_.block_depth);
      print_place();
    } else {
      print_place();
      print_row_begin(out_, schedule_);
      out_.line("{}", wait);
    }
    STITCH_TRY(print_tile());
    if (is_streamed()) close_streamed_tiles(out_);
    out_.close();
    return {};
  }

  /// A tile's operands, its loop and its results.
  Status print_tile() {
    if (const kernel::ComputedOperand* computed = kernel::computed_side(problem_, true)) {
      out_.line("const Left left = {};", computed_members(*computed));
    } else if (summed()) {
      print_copies_of_terms(out_, problem_, schedule_, shape_.threads);
    } else {
      print_tile_operand(out_, problem_, schedule_, true);
    }
    if (const kernel::ComputedOperand* computed = kernel::computed_side(problem_, false)) {
      out_.line("const Right right = {};", computed_members(*computed));
    } else if (!problem_.members.empty()) {
      print_right_of_tile(out_, problem_);
    } else if (problem_.other_right) {
      print_right_of_both(out_, problem_);
    } else if (!summed()) {
      print_tile_operand(out_, problem_, schedule_, false);
    }
    if (walks_some()) print_walked_depth(out_, problem_, schedule_);
    out_.line("Cores cores;");
    if (scaled()) print_first_scales(out_, problem_);
    if (shape_.depth_tiles > 0) {
      print_held_tiles(out_, problem_, shape_.threads);
      print_realigned_tiles(out_, problem_, schedule_, shape_.threads);
    }
    out_.blank();
    if (reads_tiles()) {
      print_warpgroup_loop(out_, problem_, schedule_);
    } else {
      STITCH_ASSIGN(const TileNest nest, contraction_nest(problem_, schedule_));
      print_loop(nest);
    }
    print_end();
    return {};
  }

  /// Which tile the block has.
  void print_place() {
    if (is_streamed()) {
      print_tile_place(out_, problem_, schedule_, "tile");
      return print_warp_place();
    }
    if (schedule_.split > 1) {
      out_.line("const int part = static_cast<int>(blockIdx.x) % {};", schedule_.split);
      out_.line("const int tile = static_cast<int>(blockIdx.x) / {};", schedule_.split);
    } else {
      out_.line("const int tile = static_cast<int>(blockIdx.x);");
    }
    print_tile_place(out_, problem_, schedule_, "tile");
    print_warp_place();
    if (walks_some()) return;
    out_.line("const int first_k = {};",
              schedule_.split > 1 ? fmt::format("part * {}", shape_.depth_tiles * schedule_.block_depth) : "0");
  }

  void print_warp_place() {
    if (reads_tiles()) return print_warpgroup_place(out_, schedule_);
    const int across = schedule_.block_columns / schedule_.warp_columns;
    out_.line("const int warp = static_cast<int>(threadIdx.x) / 32;");
    out_.line("const int warp_row = warp / {} * {}, warp_column = warp % {} * {};", across, schedule_.warp_rows, across,
              schedule_.warp_columns);
  }

  void print_loop(const TileNest& nest) {
    for (const char* side : {"Left", "Right"}) {
      out_.line("Cores::{}Part {}_part[{}];", side, side[0] == 'L' ? "left" : "right", schedule_.fragment_stages);
    }
    if (shape_.depth_tiles == 0) return;
    print_nest(
        out_, nest, [&](const TileStatement& s) { print_copy(nest, s); },
        [&](const TileStatement& s) {
          out_.line("cores.multiply(left_part[{}], right_part[{}]);", text_of(nest, s.reads[0].stage),
                    text_of(nest, s.reads[1].stage));
          if (!scaled()) return;
          print_scaled_part(out_, problem_, schedule_, text_of(nest, s.reads[0].tile), shape_.fragment_depth,
                            shape_.depth_tiles * shape_.depth_steps, false);
        },
        walks_some() || is_streamed() ? "turns" : "");
  }

  /// Where a stage of an operand's tiles begins.
  [[nodiscard]] std::string tile_text(const TileNest& nest, const pipeline::TileAccess& access) const {
    const bool left = access.buffer == left_tile;
    const std::string stage = text_of(nest, access.stage);
    if (left) return fmt::format("shared + {} * LeftTile::bytes", stage);
    return fmt::format("shared + {} * LeftTile::bytes + {} * RightTile::bytes", schedule_.stages, stage);
  }

  void print_copy(const TileNest& nest, const TileStatement& s) {
    if (s.staged) {
      using Part = TileStatement::Part;
      const StagedCopy copy{s.to.buffer == left_tile, s.part != Part::store, s.part != Part::load};
      return print_staged_copy(out_, copy, tile_text(nest, s.to), text_of(nest, s.to.tile), schedule_.block_depth);
    }
    if (s.to.buffer == left_tile || s.to.buffer == right_tile) {
      return print_tile_copy(out_, s.to.buffer == left_tile, shape_.threads, tile_text(nest, s.to),
                             text_of(nest, s.to.tile), schedule_.block_depth, summed());
    }
    const bool left = s.to.buffer == left_part;
    out_.line("Cores::load_{0}({0}_part[{1}], {2}, {3}, {4} % {5});", left ? "left" : "right",
              text_of(nest, s.to.stage), tile_text(nest, s.from), left ? "warp_row" : "warp_column",
              text_of(nest, s.to.tile), shape_.depth_steps);
  }

  void print_end() {
    out_.blank();
    if (schedule_.split > 1) {
      out_.line("leave_part<{}>(cores, parts, tile, {}, part);", shape_.threads, schedule_.split);
      out_.line("if (!arrives_last(arrived + tile, {}u)) return;", schedule_.split);
      out_.line("add_parts<{}>(cores, parts, tile, {});", shape_.threads, schedule_.split);
    }
    if (is_streamed()) print_streamed_parts(out_, shape_);
    if (combines_rows()) print_rows(out_, problem_, schedule_, epilogues_.front());
    print_results(out_, problem_, schedule_, epilogues_, "cores", "block_column + warp_column");
  }

  /// Of the depth, what data say (kernel/contraction/shown_depth.h).
  [[nodiscard]] bool walks_some() const { return shape_.depth_tiles > 0 && kernel::shown_side(problem_) != nullptr; }
  [[nodiscard]] bool is_streamed() const { return schedule_.streamed > 0; }
  [[nodiscard]] bool combines_rows() const { return !problem_.row_reductions.empty(); }
  void for_each_function(const std::function<void(const ContractionEpilogue&)>& visit) const {
    for (const ContractionEpilogues& part : epilogues_) {
      if (part.carried) visit(*part.carried);
      std::ranges::for_each(part.combined, visit);
      std::ranges::for_each(part.results, visit);
    }
  }
  [[nodiscard]] bool scaled() const { return problem_.scales.has_value(); }
  [[nodiscard]] bool summed() const { return !problem_.terms.empty(); }
  [[nodiscard]] bool reads_tiles() const { return kernel::reads_tiles(schedule_.instruction); }
  [[nodiscard]] std::string sum_type() const { return compute_type(problem_.accumulator); }

  const ContractionProblem& problem_;
  const ContractionSchedule& schedule_;
  const GenerateOptions& options_;
  const ContractionShape shape_;
  Writer out_;
  GeneratedKernel kernel_;
  ArgumentList arguments_{kernel_};
  std::vector<ContractionEpilogues> epilogues_;  ///< of each part
};

}  // namespace

Result<TileNest> contraction_nest(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ContractionShape shape = kernel::shape_of(problem, schedule);
  TileNest nest;
  for (const char* name : {"left", "right"}) nest.add_buffer(name, pipeline::Scope::device);
  for (const char* name : {"left_tile", "right_tile"}) nest.add_buffer(name, pipeline::Scope::shared);
  for (const char* name : {"left_part", "right_part"}) nest.add_buffer(name, pipeline::Scope::registers);
  const int tiles = nest.add_loop("k", shape.depth_tiles), steps = nest.add_loop("step", shape.depth_steps, true);
  const Index k = nest.loops[tiles].variable, zero = nest.pool.constant(0);
  const Index step = nest.pool.add(nest.pool.scale(k, shape.depth_steps), nest.loops[steps].variable);
  TileStatement compute;
  compute.kind = Kind::compute;
  compute.name = "multiply";
  compute.reads = {{left_part, step, zero}, {right_part, step, zero}};
  TileStatement inner = pipeline::tile_loop(
      steps, {pipeline::tile_copy({left_part, step, zero}, {left_tile, k, zero}),
              pipeline::tile_copy({right_part, step, zero}, {right_tile, k, zero}), std::move(compute)});
  const auto tile_copy = [&](int to, int from) {
    TileStatement copy = pipeline::tile_copy({to, k, zero}, {from, k, zero});
    copy.staged = copy.changes = is_held(problem, schedule, to == left_tile);
    return copy;
  };
  nest.body = {pipeline::tile_loop(
      tiles, {tile_copy(left_tile, left_memory), tile_copy(right_tile, right_memory), std::move(inner)})};
  STITCH_ASSIGN(nest, pipeline::pipelined(std::move(nest), {1, 1, schedule.stages, schedule.stages,
                                                            schedule.fragment_stages, schedule.fragment_stages}));
  // Of tiles that blocks share some have fewer turns than there are stages.
  for (TileStatement& each : nest.body) {
    if (schedule.streamed == 0 || each.kind != Kind::copy || each.to.buffer > right_tile) continue;
    each.guards.push_back({each.to.tile, pipeline::TileGuard::Kind::below, shape.depth_tiles, 1});
  }
  return nest;
}

Result<GeneratedKernel> generate_contraction(const ContractionProblem& problem, const ContractionSchedule& schedule,
                                             const GenerateOptions& options) {
  return ContractionPrinter(problem, schedule, options).print();
}

}  // namespace stitch::codegen
