#include "codegen/contraction/contraction_text.h"

#include <algorithm>

#include "codegen/contraction/window_text.h"
#include "codegen/index_text.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/gated_contraction.h"
#include "kernel/contraction/window_walk.h"

namespace stitch::codegen {
namespace {

using kernel::Contiguity;
using kernel::ContractionDigits;
using kernel::ContractionProblem;
namespace pipeline = kernel::pipeline;
using Kind = pipeline::TileStatement::Kind;

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

/// Of f32 by what has fewer bits; empty: another one.
std::string_view split_cores(kernel::ContractionInstruction instruction) {
  using enum kernel::ContractionInstruction;
  switch (instruction) {
    case mma_m16n8k8_tf32: return "Tf32Cores<1, ";
    case mma_m16n8k8_tf32x3: return "Tf32Cores<3, ";
    case mma_m16n8k16_bf16x3: return "Bf16x3Cores<";
    default: return "";
  }
}

struct StatementWriter {
  Writer& out;
  const pipeline::TileNest& nest;
  const StatementPrinter& copy;
  const StatementPrinter& compute;
  std::string_view turns;

  /// Up to which a tile's number goes.
  [[nodiscard]] std::string end(const pipeline::TileGuard& guard) const {
    if (turns.empty() || guard.per_turn == 0) return std::to_string(guard.bound);
    return guard.per_turn == 1 ? std::string(turns) : fmt::format("{} * {}", turns, guard.per_turn);
  }

  void print(const pipeline::TileStatement& s) const {
    const int depth = out.depth();
    for (const pipeline::TileGuard& guard : s.guards) {
      const bool below = guard.kind == pipeline::TileGuard::Kind::below;
      out.open("if ({} {} {})", text_of(nest, guard.index),
               below ? "<" : "==", below ? end(guard) : std::to_string(guard.bound));
    }
    switch (s.kind) {
      case Kind::loop: {
        const pipeline::TileLoop& loop = nest.loops[s.loop];
        out.line("#pragma unroll{}", loop.unrolled ? "" : " 1");
        out.open("for (int {0} = 0; {0} < {1}; ++{0})", loop.name,
                 s.loop == 0 && !turns.empty() ? std::string(turns) : std::to_string(loop.extent));
        for (const pipeline::TileStatement& each : s.body) print(each);
        out.close();
        break;
      }
      case Kind::copy: copy(s); break;
      case Kind::compute: compute(s); break;
      case Kind::commit: out.line("commit_copies();"); break;
      case Kind::wait:
        out.line("wait_for_groups<{}>();", s.pending);
        out.line("__syncthreads();");
        break;
      case Kind::acquire: out.line("__syncthreads();"); break;
    }
    out.close(out.depth() - depth);
  }
};

/// Where tiles of rows are boxes.
Result<kernel::WindowWalk> walk_of(const ContractionProblem& problem, const kernel::ContractionSchedule& schedule) {
  if (!kernel::walks_windows(problem, schedule)) return make_error(ErrorKind::constraint, "rows follow one another");
  return kernel::window_walk(problem, schedule.block_rows);
}

}  // namespace

std::string offset_of(const ContractionDigits& digits, std::string_view variable,
                      std::span<const std::string> strides) {
  std::string text;
  std::int64_t step = 1;
  for (std::size_t i = digits.size(); i-- > 0; step *= digits[i].extent) {
    const auto& [extent, stride] = digits[i];
    if (stride == 0) continue;
    const bool named = i < strides.size() && !strides[i].empty();
    std::string digit = step == 1 ? std::string(variable) : fmt::format("{} / {}", variable, step);
    if (i > 0) digit = step == 1 ? fmt::format("{} % {}", digit, extent) : fmt::format("({}) % {}", digit, extent);
    text += fmt::format("{}static_cast<s64>({}){}", text.empty() ? "" : " + ", digit,
                        named         ? " * " + strides[i]
                        : stride == 1 ? ""
                                      : fmt::format(" * {}", stride));
  }
  return text;
}

std::string stored_text(graph::DType dtype, std::string_view value) {
  const std::string type = storage_type(dtype);
  return fmt::format("{}<{}>({})", compute_type(dtype) == type ? "static_cast" : "narrow", type, value);
}

std::string of_member(std::span<const std::string> texts, std::string_view chosen) {
  if (std::ranges::all_of(texts, [&](const std::string& text) { return text == texts[0]; })) return texts[0];
  std::string choice;
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) choice += fmt::format("{} == {} ? {} : ", chosen, i, texts[i]);
  return choice + texts.back();
}

std::string number_within(std::string_view number, std::span<const std::int64_t> first) {
  std::string text;
  for (std::size_t i = 1; i < first.size(); ++i)
    text += fmt::format("{}({} >= {} ? 1 : 0)", text.empty() ? "" : " + ", number, first[i]);
  return text;
}

void print_head(Writer& out, const GenerateOptions& options, std::string_view problem, std::string_view schedule,
                std::string_view header, std::string_view another, std::string_view third, std::string_view fourth) {
  out.append(options.comment);
  out.line("// {}", problem);
  out.line("// {}", schedule);
  out.blank();
  for (const std::string_view each : {another, third, fourth}) {
    if (!each.empty()) out.line("#include \"stitch/{}\"", each);
  }
  emit_preamble(out, "", header);
}

void ArgumentList::add_tensors(const graph::Graph& graph, const std::set<int>& read,
                               std::span<const kernel::InPlace> in_place) {
  const auto restrict_of = [&](int number, int kernel::InPlace::*side) {
    return std::ranges::count(in_place, number, side) > 0 ? "" : " __restrict__";
  };
  for (const int number : read) {
    const graph::DType dtype = graph.node(graph.parameters()[number]).type().dtype;
    add({kernel::Buffer::Kind::input, number},
        fmt::format("const {}*{} in{}", storage_type(dtype), restrict_of(number, &kernel::InPlace::input), number));
  }
  for (std::size_t r = 0; r < graph.results().size(); ++r) {
    add({kernel::Buffer::Kind::output, static_cast<int>(r)},
        fmt::format("{}*{} out{}", storage_type(graph.type(graph.results()[r]).dtype),
                    restrict_of(static_cast<int>(r), &kernel::InPlace::output), r));
  }
}

void ArgumentList::add(const kernel::Buffer& buffer, std::string_view declaration) {
  kernel_.arguments.push_back({Argument::Kind::buffer, buffer, 0});
  text_ += fmt::format("{}{}", text_.empty() ? "" : ", ", declaration);
  std::string& names = buffer.kind == kernel::Buffer::Kind::output ? written_ : read_;
  names += fmt::format("{}{}", names.empty() ? "" : ", ", declaration.substr(declaration.rfind(' ') + 1));
}

std::string ArgumentList::wait(bool made_of_nothing) const {
  const bool both = made_of_nothing && !read_.empty() && !written_.empty();
  return fmt::format("await_predecessor({}{}{});", read_, both ? ", " : "", made_of_nothing ? written_ : "");
}

namespace {

/// at(row, k), and covers(row, k): whether there is an element, not a window's edge or a hole.
void print_places(Writer& out, const kernel::ContractionOperand& operand, const PagesText* pages) {
  out.open("__device__ static __forceinline__ bool covers(int row, int k)");
  std::string covered;
  for (std::size_t i = 0; i < operand.windows.size(); ++i) {
    const kernel::WindowDimension& window = operand.windows[i];
    out.line("const int c{} = {};", i, coordinate_of(window));
    covered += fmt::format("{}static_cast<u32>(c{}) < {}u", i == 0 ? "" : " && ", i, window.extent);
    if (window.holes > 1) covered += fmt::format(" && c{} % {} == 0", i, window.holes);
  }
  out.line("return {};", covered.empty() ? "true" : covered);
  out.close();
  out.open("__device__ {}__forceinline__ s64 at(int row, int k){}", pages == nullptr ? "static " : "",
           pages == nullptr ? "" : " const");
  std::string place = sum_of({offset_of(operand.free, "row"), offset_of(operand.contracted, "k")});
  for (const kernel::WindowDimension& window : operand.windows) {
    if (window.stride == 0) continue;
    place += fmt::format(" + static_cast<s64>(({}) / {}) * {}", coordinate_of(window), window.holes, window.stride);
  }
  // Beyond the edge there is nothing to begin at, so that the offset belongs here.
  if (!operand.windows.empty() && operand.offset != 0) place += fmt::format(" + {}", operand.offset);
  if (pages == nullptr) {
    out.line("return {};", place);
  } else {
    out.line("return in_pages<{}, {}>(table, first + {});", pages->pages.page, pages->pages.pages, place);
  }
  out.close();
}

}  // namespace

void print_operand(Writer& out, std::string_view name, const kernel::ContractionOperand& operand, std::int64_t rows,
                   std::int64_t depth, const TileText& tile, const PagesText* pages) {
  const std::string type = storage_type(operand.dtype);
  out.open("struct {}", name);
  out.line("static constexpr int rows = {}, depth = {};", rows, depth);
  out.line("static constexpr bool whole_rows = {}, whole_depth = {};", tile.whole_rows, tile.whole_depth);
  const bool even =
      operand.windows.empty() && pages == nullptr && operand.free.size() <= 1 && operand.contracted.size() <= 1;
  if (even) out.line("static constexpr bool even = true;");
  out.line("const {}* data;", type);
  if (pages != nullptr) {
    out.line("const {}* table;", storage_type(pages->table));
    out.line("s64 first;");
  }
  print_places(out, operand, pages);
  out.open("__device__ static __forceinline__ s64 of_batch(int batch)");
  const bool begins = operand.offset != 0 && operand.windows.empty();
  const std::string begin = begins ? std::to_string(operand.offset) : "";
  out.line("return {};", sum_of({offset_of(operand.batch, "batch"), begin}));
  out.close();
  out.set_depth(0);
  out.line("}};");
  print_tile_type(out, name, operand, tile);
}

std::string operand_members(std::string_view name, const kernel::ContractionOperand& operand, const PagesText* pages) {
  if (pages == nullptr) return fmt::format("{{in{} + {}::of_batch(batch)}}", operand.parameter, name);
  return fmt::format("{{in{}, in{}, {}::of_batch(batch)}}", operand.parameter, pages->pages.table, name);
}

void print_tile_type(Writer& out, std::string_view name, const kernel::ContractionOperand& operand,
                     const TileText& tile) {
  const std::string type = storage_type(operand.dtype);
  const bool along_depth = kernel::contiguity(operand) != Contiguity::free;
  // Of lines that are longer than what a swizzle covers: elements of attention have 16 bits.
  constexpr int longest_line = 64;
  if (tile.warpgroup && !along_depth) {
    out.line("using {}Tile = PanelTile<{}, {}, {}, {}>;", name, type, tile.rows, tile.depth, tile.copy);
  } else if (tile.warpgroup && tile.depth > longest_line && graph::byte_size(operand.dtype) == 2) {
    out.line("using {}Tile = LongLineTile<{}, {}, {}, {}>;", name, type, tile.rows, tile.depth, tile.copy);
  } else {
    out.line("using {}Tile = OperandTile<{}, {}, {}, {}, {}, {}>;", name, type, tile.rows, tile.depth, along_depth,
             tile.copy, tile.swizzle);
  }
  out.blank();
}

std::string cores_of(const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                     std::string_view left, std::string_view right, int left_run, std::optional<int> right_run) {
  const std::string sum = compute_type(kernel::types_of(problem).accumulator);
  if (in_tensor_memory(schedule.instruction))
    return fmt::format("TensorMemorySums<{}, {}, {}>", sum, schedule.warp_rows, kernel::taken_columns(schedule));
  if (is_warpgroup(schedule.instruction)) {
    return fmt::format("WarpgroupCores<Product, {}Tile, {}Tile, {}, {}, {}{}>", left, right, sum, schedule.warp_rows,
                       schedule.warp_columns, promotes(schedule.instruction) ? ", true" : "");
  }
  if (schedule.instruction == kernel::ContractionInstruction::mma_m16n8k4_f64) {
    return fmt::format("DoubleCores<{}Tile, {}Tile, {}, {}>", left, right, schedule.warp_rows, schedule.warp_columns);
  }
  if (const std::string_view cores = split_cores(schedule.instruction); !cores.empty()) {
    return fmt::format("{}{}Tile, {}Tile, {}, {}, {}>", cores, left, right, sum, schedule.warp_rows,
                       schedule.warp_columns);
  }
  if (schedule.instruction != kernel::ContractionInstruction::cuda_core) {
    return fmt::format("TensorCores<{}, {}Tile, {}Tile, {}, {}, {}>", mma_of(problem), left, right, sum,
                       schedule.warp_rows, schedule.warp_columns);
  }
  return fmt::format("CudaCores<{}Tile, {}Tile, {}, {}, {}, {}, {}, {}, {}, {}>", left, right, sum, schedule.warp_rows,
                     schedule.warp_columns, schedule.thread_rows, schedule.thread_columns, left_run,
                     right_run.value_or(kernel::core_run(problem.right, schedule.thread_columns)),
                     kernel::shape_of(problem, schedule).fragment_depth);
}

namespace {

/// Whose a column of tiles is, and where it begins there: all threads of a block find the same.
void print_member_place(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                        std::string_view column) {
  out.line("const int column_tile = {};", column);
  const std::vector<std::int64_t> tiles = kernel::first_tiles(problem, schedule);
  std::vector<std::string> first;
  for (const std::int64_t tile : tiles) first.push_back(std::to_string(tile));
  out.line("const int member = {};", number_within("column_tile", tiles));
  out.line("const int block_column = (column_tile - ({})) * {};", of_member(first), schedule.block_columns);
}

}  // namespace

void print_tile_place(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                      std::string_view number) {
  const kernel::ContractionShape shape = kernel::shape_of(problem, schedule);
  const std::int64_t rows = shape.row_tiles / schedule.cluster, columns = shape.column_tiles;
  out.line("const int batch = {0} / {1}, of_batch = {0} % {1};", number, rows * columns);
  const std::int64_t group = std::min<std::int64_t>(schedule.group, rows);
  out.line("const int group = of_batch / {};", group * columns);
  out.line("const int height = minimum({}, {} - group * {});", group, rows, group);
  std::string row = fmt::format("(group * {0} + of_batch % {1} % height)", group, group * columns);
  if (schedule.cluster > 1) row = fmt::format("({} * {} + rank)", row, schedule.cluster);
  out.line("const int block_row = {} * {};", row, schedule.block_rows);
  if (const Result<kernel::WindowWalk> walk = walk_of(problem, schedule)) {
    // Of tiles of one batch that is the number; a tile's rows are numbered from it on.
    out.line("const int row_tile = block_row / {};", schedule.block_rows);
    std::int64_t before = 1;
    for (std::size_t i = 0; i < walk->rows.size(); ++i) {
      const kernel::WindowWalk::Rows& rows = walk->rows[i];
      std::string number = before == 1 ? "row_tile" : fmt::format("row_tile / {}", before);
      if (i + 1 < walk->rows.size()) number = fmt::format("{} % {}", number, rows.tiles());
      out.line("const int first{} = {} * {};", i, number, rows.tile);
      before *= rows.tiles();
    }
  }
  const std::string column = fmt::format("of_batch % {} / height", group * columns);
  if (!problem.members.empty()) return print_member_place(out, problem, schedule, column);
  out.line("const int block_column = {} * {};", column, schedule.block_columns);
}

void print_tile_copy(Writer& out, bool left, int threads, std::string_view place, std::string_view tile, int depth,
                     bool of_terms) {
  if (of_terms) return out.line("copy_{}({}, first_k + {} * {});", left ? "left" : "right", place, tile, depth);
  out.line("copy_tile<{}Tile, {}>({}, {}, {}, first_k + {} * {});", left ? "Left" : "Right", threads, place,
           left ? "left" : "right", left ? "block_row" : "block_column", tile, depth);
}

std::string text_of(const pipeline::TileNest& nest, kernel::Index index) {
  return index_text(nest.pool, index, [&](kernel::Index variable) -> std::string {
    for (const pipeline::TileLoop& loop : nest.loops) {
      if (loop.variable == variable) return loop.name;
    }
    return "0";
  });
}

void print_nest(Writer& out, const pipeline::TileNest& nest, const StatementPrinter& copy,
                const StatementPrinter& compute, std::string_view turns) {
  const StatementWriter writer{out, nest, copy, compute, turns};
  for (const pipeline::TileStatement& each : nest.body) writer.print(each);
}

std::string epilogue_of(const ContractionProblem& part, std::size_t result) {
  return part.results.empty() ? "epilogue" : fmt::format("epilogue{}", result);
}

std::string epilogue_name(const ContractionProblem& problem, std::size_t part) {
  return problem.members.empty() ? "Epilogue" : fmt::format("Epilogue{}", part);
}

void print_row_results(Writer& out, const ContractionProblem& part, const ContractionEpilogues& epilogues,
                       int block_rows, int threads) {
  if (kernel::results_of_row(part) == 0) return;
  out.open("if (block_column == 0)");
  out.open("for (int own = static_cast<int>(threadIdx.x); own < {}; own += {})", block_rows, threads);
  out.line("const int row = block_row + own;");
  out.line("if (row >= {}) break;", part.rows);
  const std::span<const kernel::ContractionResult> results = kernel::results_of(part);
  for (std::size_t r = 0; r < results.size(); ++r) {
    const kernel::ContractionResult& result = results[r];
    if (!result.of_rows) continue;
    const ContractionEpilogue& epilogue = epilogues.results[r];
    out.line("const {} {}{{{}}};", epilogue.name, epilogue_of(part, r), epilogue.members);
    out.line("out{}[{}] = {};", r, sum_of({offset_of(result.batch, "batch"), offset_of(result.rows, "row")}),
             stored_text(result.dtype, fmt::format("{}({{}}, batch, row, 0)", epilogue_of(part, r))));
  }
  out.close(2);
}

}  // namespace stitch::codegen
