#include "codegen/contraction_kernel.h"

#include "codegen/contraction_epilogue.h"
#include "codegen/index_text.h"
#include "codegen/spelling.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"
#include "kernel/pipeline/pipelining.h"

namespace stitch::codegen {
namespace {

using kernel::Contiguity;
using kernel::ContractionDigits;
using kernel::ContractionInstruction;
using kernel::ContractionOperand;
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

TileStatement copy_of(int to, int from, Index tile, Index from_tile, Index stage) {
  TileStatement copy;
  copy.kind = Kind::copy;
  copy.to = {to, tile, stage};
  copy.from = {from, from_tile, stage};
  return copy;
}

TileStatement loop_of(int loop, std::vector<TileStatement> body) {
  TileStatement made;
  made.kind = Kind::loop;
  made.loop = loop;
  made.body = std::move(body);
  return made;
}

/// Where element `variable` of a joined dimension lies, beyond the first one; empty: there.
std::string offset_of(const ContractionDigits& digits, std::string_view variable) {
  std::string text;
  std::int64_t step = 1;
  for (std::size_t i = digits.size(); i-- > 0; step *= digits[i].extent) {
    const auto& [extent, stride] = digits[i];
    if (stride == 0) continue;
    std::string digit = step == 1 ? std::string(variable) : fmt::format("{} / {}", variable, step);
    if (i > 0) digit = step == 1 ? fmt::format("{} % {}", digit, extent) : fmt::format("({}) % {}", digit, extent);
    text += fmt::format("{}static_cast<s64>({}){}", text.empty() ? "" : " + ", digit,
                        stride == 1 ? "" : fmt::format(" * {}", stride));
  }
  return text;
}

/// A sum of those that are not empty.
std::string sum_of(std::initializer_list<std::string> terms) {
  std::string text;
  for (const std::string& term : terms) {
    if (!term.empty()) text += (text.empty() ? "" : " + ") + term;
  }
  return text.empty() ? "0" : text;
}

std::string mma_of(const ContractionProblem& problem) {
  const auto name = [](graph::DType dtype) -> std::string {
    switch (dtype) {
      case graph::DType::s8: return "S8";
      case graph::DType::u8: return "U8";
      case graph::DType::f8e4m3: return "E4m3";
      default: return "E5m2";
    }
  };
  if (problem.left.dtype == graph::DType::f16) return "MmaF16";
  if (problem.left.dtype == graph::DType::bf16) return "MmaBf16";
  return "Mma" + name(problem.left.dtype) + name(problem.right.dtype);
}

class ContractionPrinter {
 public:
  ContractionPrinter(const ContractionProblem& problem, const ContractionSchedule& schedule,
                     const GenerateOptions& options)
      : problem_(problem), schedule_(schedule), options_(options), shape_(kernel::shape_of(problem, schedule)) {}

  Result<GeneratedKernel> print() {
    STITCH_ASSIGN(const ContractionEpilogue epilogue, print_epilogue(problem_));
    STITCH_ASSIGN(const TileNest nest, contraction_nest(problem_, schedule_));
    add_arguments(epilogue);
    print_head();
    print_operand("Left", problem_.left, problem_.rows);
    print_operand("Right", problem_.right, problem_.columns);
    print_cores();
    out_.append(epilogue.code);
    out_.blank();
    out_.line("}}  // namespace");
    out_.blank();
    print_kernel(epilogue, nest);
    kernel_.name = options_.name;
    kernel_.source = out_.text();
    kernel_.blocks = shape_.blocks;
    kernel_.threads = shape_.threads;
    kernel_.shared_bytes = shape_.shared_bytes;
    return std::move(kernel_);
  }

 private:
  /// Parameters that are read, the result, and what blocks of a split tile share.
  void add_arguments(const ContractionEpilogue& epilogue) {
    const graph::Graph& graph = *problem_.graph;
    std::set<int> read = epilogue.parameters;
    read.insert({problem_.left.parameter, problem_.right.parameter});
    for (const int number : read) {
      const graph::DType dtype = graph.node(graph.parameters()[number]).type().dtype;
      add_argument({kernel::Buffer::Kind::input, number},
                   fmt::format("const {}* __restrict__ in{}", storage_type(dtype), number));
    }
    add_argument({kernel::Buffer::Kind::output, 0},
                 fmt::format("{}* __restrict__ out0", storage_type(problem_.result.dtype)));
    if (schedule_.split == 1) return;
    kernel_.scratch = {{shape_.scratch_bytes, false}, {4 * shape_.tiles, true}};
    add_argument({kernel::Buffer::Kind::scratch, 0}, fmt::format("{}* __restrict__ parts", sum_type()));
    add_argument({kernel::Buffer::Kind::scratch, 1}, "u32* __restrict__ arrived");
  }
  void add_argument(const kernel::Buffer& buffer, std::string text) {
    kernel_.arguments.push_back({Argument::Kind::buffer, buffer, 0});
    parameters_ += (parameters_.empty() ? "" : ", ") + std::move(text);
  }

  void print_head() {
    out_.append(options_.comment);
    out_.line("// {}", kernel::to_string(problem_));
    out_.line("// {}", kernel::to_string(schedule_));
    out_.blank();
    out_.line("#include \"stitch/contraction.cuh\"");
    out_.line("#include \"stitch/kernel.cuh\"");
    out_.blank();
    out_.line("namespace {{");
    out_.blank();
    out_.line("using namespace stitch;");
    out_.blank();
  }

  void print_operand(std::string_view name, const ContractionOperand& operand, std::int64_t rows) {
    const bool left = name == "Left";
    const bool along_depth = kernel::contiguity(operand) != Contiguity::free;
    out_.open("struct {}", name);
    out_.line("static constexpr int rows = {}, depth = {};", rows, problem_.contracted);
    out_.line("const {}* data;", storage_type(operand.dtype));
    out_.open("__device__ static __forceinline__ s64 at(int row, int k)");
    out_.line("return {};", sum_of({offset_of(operand.free, "row"), offset_of(operand.contracted, "k")}));
    out_.close();
    out_.open("__device__ static __forceinline__ s64 of_batch(int batch)");
    const std::string begin = operand.offset == 0 ? "" : std::to_string(operand.offset);
    out_.line("return {};", sum_of({offset_of(operand.batch, "batch"), begin}));
    out_.close();
    out_.set_depth(0);
    out_.line("}};");
    out_.line("using {}Tile = OperandTile<{}, {}, {}, {}, {}, {}>;", name, storage_type(operand.dtype),
              left ? schedule_.block_rows : schedule_.block_columns, schedule_.block_depth, along_depth,
              left ? schedule_.left_copy : schedule_.right_copy, schedule_.swizzle);
    out_.blank();
  }

  void print_cores() {
    if (schedule_.instruction == ContractionInstruction::cuda_core) {
      out_.line("using Cores = CudaCores<LeftTile, RightTile, {}, {}, {}, {}, {}, {}, {}, {}>;", sum_type(),
                schedule_.warp_rows, schedule_.warp_columns, schedule_.thread_rows, schedule_.thread_columns,
                kernel::core_run(problem_.left, schedule_.thread_rows),
                kernel::core_run(problem_.right, schedule_.thread_columns), shape_.fragment_depth);
    } else {
      out_.line("using Cores = TensorCores<{}, LeftTile, RightTile, {}, {}, {}>;", mma_of(problem_), sum_type(),
                schedule_.warp_rows, schedule_.warp_columns);
    }
    out_.blank();
  }

  void print_kernel(const ContractionEpilogue& epilogue, const TileNest& nest) {
    out_.line("extern \"C\" __global__ void __launch_bounds__({}, {})", shape_.threads, schedule_.blocks_per_sm);
    out_.open("{}({})", options_.name, parameters_);
    if (shape_.tiles == 0) {
      out_.close();
      return;
    }
    out_.line("extern __shared__ __align__(128) unsigned char shared[];");
    print_place();
    out_.line("const Left left = {{in{} + Left::of_batch(batch)}};", problem_.left.parameter);
    out_.line("const Right right = {{in{} + Right::of_batch(batch)}};", problem_.right.parameter);
    out_.line("Cores cores;");
    out_.blank();
    print_loop(nest);
    print_results(epilogue);
    out_.close();
  }

  /// Which tile the block has. `group` rows of tiles are walked column by column, so that blocks which run together
  /// share operands in L2.
  void print_place() {
    const std::int64_t rows = shape_.row_tiles, columns = shape_.column_tiles;
    if (schedule_.split > 1) {
      out_.line("const int part = static_cast<int>(blockIdx.x) % {};", schedule_.split);
      out_.line("const int tile = static_cast<int>(blockIdx.x) / {};", schedule_.split);
    } else {
      out_.line("const int tile = static_cast<int>(blockIdx.x);");
    }
    out_.line("const int batch = tile / {}, of_batch = tile % {};", rows * columns, rows * columns);
    const std::int64_t group = std::min<std::int64_t>(schedule_.group, rows);
    out_.line("const int group = of_batch / {};", group * columns);
    out_.line("const int height = minimum({}, {} - group * {});", group, rows, group);
    out_.line("const int block_row = (group * {0} + of_batch % {1} % height) * {2};", group, group * columns,
              schedule_.block_rows);
    out_.line("const int block_column = of_batch % {} / height * {};", group * columns, schedule_.block_columns);
    const int across = schedule_.block_columns / schedule_.warp_columns;
    out_.line("const int warp = static_cast<int>(threadIdx.x) / 32;");
    out_.line("const int warp_row = warp / {} * {}, warp_column = warp % {} * {};", across, schedule_.warp_rows, across,
              schedule_.warp_columns);
    out_.line("const int first_k = {};",
              schedule_.split > 1 ? fmt::format("part * {}", shape_.depth_tiles * schedule_.block_depth) : "0");
  }

  void print_loop(const TileNest& nest) {
    for (const char* side : {"Left", "Right"}) {
      out_.line("Cores::{}Part {}_part[{}];", side, side[0] == 'L' ? "left" : "right", schedule_.fragment_stages);
    }
    if (shape_.depth_tiles == 0) return;
    for (const TileStatement& each : nest.body) print_statement(nest, each);
  }

  [[nodiscard]] std::string text_of(const TileNest& nest, Index index) const {
    return index_text(nest.pool, index, [&](Index variable) -> std::string {
      for (const pipeline::TileLoop& loop : nest.loops) {
        if (loop.variable == variable) return loop.name;
      }
      return "0";
    });
  }

  void print_statement(const TileNest& nest, const TileStatement& s) {
    const int depth = out_.depth();
    for (const pipeline::TileGuard& guard : s.guards) {
      const char* relation = guard.kind == pipeline::TileGuard::Kind::below ? "<" : "==";
      out_.open("if ({} {} {})", text_of(nest, guard.index), relation, guard.bound);
    }
    switch (s.kind) {
      case Kind::loop: {
        const pipeline::TileLoop& loop = nest.loops[s.loop];
        out_.line("#pragma unroll{}", loop.unrolled ? "" : " 1");
        out_.open("for (int {0} = 0; {0} < {1}; ++{0})", loop.name, loop.extent);
        for (const TileStatement& each : s.body) print_statement(nest, each);
        out_.close();
        break;
      }
      case Kind::copy: print_copy(nest, s); break;
      case Kind::compute:
        out_.line("cores.multiply(left_part[{}], right_part[{}]);", text_of(nest, s.reads[0].stage),
                  text_of(nest, s.reads[1].stage));
        break;
      case Kind::commit: out_.line("commit_copies();"); break;
      case Kind::wait:
        out_.line("wait_for_groups<{}>();", s.pending);
        out_.line("__syncthreads();");
        break;
      case Kind::acquire: out_.line("__syncthreads();"); break;
    }
    out_.close(out_.depth() - depth);
  }

  /// Where a stage of an operand's tiles begins.
  [[nodiscard]] std::string tile_text(const TileNest& nest, const pipeline::TileAccess& access) const {
    const bool left = access.buffer == left_tile;
    const std::string stage = text_of(nest, access.stage);
    if (left) return fmt::format("shared + {} * LeftTile::bytes", stage);
    return fmt::format("shared + {} * LeftTile::bytes + {} * RightTile::bytes", schedule_.stages, stage);
  }

  void print_copy(const TileNest& nest, const TileStatement& s) {
    if (s.to.buffer == left_tile || s.to.buffer == right_tile) {
      const bool left = s.to.buffer == left_tile;
      out_.line("copy_tile<{}Tile, {}>({}, {}, {}, first_k + {} * {});", left ? "Left" : "Right", shape_.threads,
                tile_text(nest, s.to), left ? "left" : "right", left ? "block_row" : "block_column",
                text_of(nest, s.to.tile), schedule_.block_depth);
      return;
    }
    const bool left = s.to.buffer == left_part;
    out_.line("Cores::load_{0}({0}_part[{1}], {2}, {3}, {4} % {5});", left ? "left" : "right",
              text_of(nest, s.to.stage), tile_text(nest, s.from), left ? "warp_row" : "warp_column",
              text_of(nest, s.to.tile), shape_.depth_steps);
  }

  void print_results(const ContractionEpilogue& epilogue) {
    out_.blank();
    if (schedule_.split > 1) {
      out_.line("leave_part<{}>(cores, parts, tile, {}, part);", shape_.threads, schedule_.split);
      out_.line("if (!arrives_last(arrived + tile, {}u)) return;", schedule_.split);
      out_.line("add_parts<{}>(cores, parts, tile, {});", shape_.threads, schedule_.split);
    }
    const kernel::ContractionStrips strips = kernel::strips_of(problem_, schedule_);
    const bool along_rows = kernel::widest_access(problem_.result).along_rows;
    out_.line("wait_for_groups<0>();");
    out_.line("__syncthreads();  // the strips lie where tiles were read");
    std::string members;
    for (const int parameter : epilogue.parameters)
      members += fmt::format("{}in{}", members.empty() ? "" : ", ", parameter);
    out_.line("const Epilogue epilogue{{{}}};", members);
    out_.line("{0}* const strip = reinterpret_cast<{0}*>(shared) + warp * {1};", sum_type(),
              strips.rows * strips.pitch);
    out_.open("const auto write = [&](int row, int column, const {}* sums)", sum_type());
    out_.line("if (row >= {} || column >= {}) return;", problem_.rows, problem_.columns);
    const std::string type = storage_type(problem_.result.dtype);
    out_.line("{} results[{}];", type, schedule_.store);
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", schedule_.store);
    const std::string value =
        fmt::format("epilogue(sums[v{}], batch, row{}, column{})", along_rows ? fmt::format(" * {}", strips.pitch) : "",
                    along_rows ? " + v" : "", along_rows ? "" : " + v");
    const std::string stored = compute_type(problem_.result.dtype) == type
                                   ? fmt::format("static_cast<{}>({})", type, value)
                                   : fmt::format("narrow<{}>({})", type, value);
    out_.line("results[v] = {};", stored);
    out_.close();
    out_.line("store<{}>(out0 + ({}), results);", schedule_.store,
              sum_of({offset_of(problem_.result.batch, "batch"), offset_of(problem_.result.rows, "row"),
                      offset_of(problem_.result.columns, "column")}));
    out_.set_depth(1);
    out_.line("}};");
    out_.line("store_results<{}, {}, {}, {}>(cores, strip, block_row + warp_row, block_column + warp_column, write);",
              schedule_.warp_columns, strips.pitch, schedule_.store, along_rows);
  }

  [[nodiscard]] std::string sum_type() const { return compute_type(problem_.accumulator); }

  const ContractionProblem& problem_;
  const ContractionSchedule& schedule_;
  const GenerateOptions& options_;
  const ContractionShape shape_;
  Writer out_;
  GeneratedKernel kernel_;
  std::string parameters_;
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
  TileStatement inner = loop_of(steps, {copy_of(left_part, left_tile, step, k, zero),
                                        copy_of(right_part, right_tile, step, k, zero), std::move(compute)});
  nest.body = {loop_of(tiles, {copy_of(left_tile, left_memory, k, k, zero),
                               copy_of(right_tile, right_memory, k, k, zero), std::move(inner)})};
  return pipeline::pipelined(
      std::move(nest), {1, 1, schedule.stages, schedule.stages, schedule.fragment_stages, schedule.fragment_stages});
}

Result<GeneratedKernel> generate_contraction(const ContractionProblem& problem, const ContractionSchedule& schedule,
                                             const GenerateOptions& options) {
  return ContractionPrinter(problem, schedule, options).print();
}

}  // namespace stitch::codegen
