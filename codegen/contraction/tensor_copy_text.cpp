#include "codegen/contraction/tensor_copy_text.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/row_text.h"
#include "codegen/contraction/scale_text.h"
#include "codegen/contraction/summed_text.h"
#include "codegen/contraction/tensor_memory_text.h"
#include "codegen/contraction/warpgroup_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/tensor_box.h"
#include "kernel/contraction/window_walk.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;
using kernel::TensorBox;

/// Of device/tensor_copy.cuh's KeptMaps: those of the operands, and whose they are.
std::int64_t kept_maps_bytes(const ContractionProblem& problem) {
  return (1 + kernel::tensor_maps(problem)) * kernel::tensor_map_bytes;
}

/// A tensor map that is kept: how its structure is called, and of which operand.
struct NamedMap {
  std::string name;
  const kernel::ContractionOperand* operand;
  TensorBox box;
};
/// In the order in which KeptMaps has them: the left operand's and the right ones', or of a sum those of each term.
/// "RightMap", of several products "RightMap1".
Result<std::vector<NamedMap>> maps_of(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  std::vector<NamedMap> maps;
  STITCH_ASSIGN(const std::vector<TensorBox> left, kernel::left_boxes(problem, schedule));
  STITCH_ASSIGN(const std::vector<TensorBox> right, kernel::right_boxes(problem, schedule));
  const auto add = [&](std::string_view side, const auto& operands, const auto& boxes, std::size_t i) {
    maps.push_back(
        {boxes.size() == 1 ? fmt::format("{}Map", side) : fmt::format("{}Map{}", side, i), operands[i], boxes[i]});
  };
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (i < left.size()) add("Left", kernel::left_operands(problem), left, i);
    add("Right", kernel::right_operands(problem), right, i);
  }
  return maps;
}

/// PTX ISA, tensormap.replace: unsigned integers of the element's size, since nothing but zeros is filled in.
int element_type(int bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : 2; }

void print_tensor_map(Writer& out, std::string_view name, int element_bytes, const TensorBox& box) {
  std::string boxes, sizes, strides, steps;
  for (std::size_t d = 0; d < box.dimensions.size(); ++d) {
    const char* comma = d == 0 ? "" : ", ";
    const int extent = d == 0 ? box.line_elements : d == 1 ? box.lines : 1;
    boxes += fmt::format("{}{}", comma, box.extents.empty() ? extent : box.extents[d]);
    steps += fmt::format("{}{}", comma, box.steps.empty() ? 1 : box.steps[d]);
    sizes += fmt::format("{}{}", comma, box.dimensions[d].extent);
    strides += fmt::format("{}{}", comma, box.dimensions[d].stride * element_bytes);
  }
  const int line_bytes = box.line_elements * element_bytes;
  out.open("struct {}", name);
  out.line("static constexpr int rank = {}, type = {}, swizzle = {};", box.dimensions.size(),
           element_type(element_bytes),
           line_bytes == 128  ? 3
           : line_bytes == 64 ? 2
                              : 1);
  out.line("static constexpr u32 box[] = {{{}}}, sizes[] = {{{}}}, steps[] = {{{}}};", boxes, sizes, steps);
  out.line("static constexpr u64 strides[] = {{{}}};", strides);
  out.set_depth(0);
  out.line("}};");
}

/// Where a batch lies along its dimensions.
std::string batch_coordinates(const kernel::ContractionDigits& digits) {
  std::string text;
  std::int64_t step = 1;
  for (const auto& digit : digits) step *= digit.extent;
  for (const auto& [extent, stride] : digits) {
    step /= extent;
    if (stride == 0) continue;
    text += step == 1 ? fmt::format(", batch % {}", extent) : fmt::format(", batch / {} % {}", step, extent);
  }
  return text;
}

/// What the part `part` of the depth's index, beyond the first one, is called in the loop over it.
std::string position_name(int part) { return fmt::format("position{}", part); }

/// A coordinate of a box that begins `free` beyond the operand's first column.
std::string place_text(const TensorBox::Place& place, std::string_view k, std::string_view free) {
  if (place.depth) return std::string(k);
  if (place.free) return std::string(free);
  std::string text;
  const auto add = [&](const std::string& name, std::int64_t step) {
    const char* const sign = step < 0 ? (text.empty() ? "-" : " - ") : text.empty() ? "" : " + ";
    text += sign + name + (std::abs(step) == 1 ? "" : fmt::format(" * {}", std::abs(step)));
  };
  if (place.rows >= 0) add(fmt::format("first{}", place.rows), place.step);
  for (const auto& [part, step] : place.turns) add(position_name(part), step);
  if (place.base != 0) add(std::to_string(std::abs(place.base)), place.base < 0 ? -1 : 1);
  return text.empty() ? "0" : text;
}

/// Blocks that bring what others multiply: those of a row, or below one another.
int blocks_together(const ContractionProblem& problem, const ContractionSchedule& s) {
  const kernel::TensorShares shares = kernel::tensor_shares(problem, s);
  return std::max({shares.left, shares.right, s.paired ? s.cluster : 1});
}

/// How copies come: to this block, to all that share a tile, or counted by a pair's first block.
std::string copy_name(const TensorBox& box, int shares, bool paired) {
  return fmt::format("copy_box<{}, {}{}>", box.dimensions.size(), shares > 1, paired ? ", true" : "");
}

/// Asks for this block's share of an operand's tile number `tile`, by the map `map`. `paired`: of a pair, of whose
/// right tile `own_columns` are each block's own (0: none are).
void print_boxes(Writer& out, bool left, std::string_view map, std::string_view tile,
                 const kernel::ContractionOperand& operand, const TensorBox& box, int depth, int shares, bool paired,
                 int own_columns) {
  const std::string name = left ? "Left" : "Right";
  const bool along_depth = kernel::contiguity(operand) != kernel::Contiguity::free;
  const std::string first = left ? "block_row" : "block_column", tiles = left ? "shared" : "right_tiles";
  // Of pairs those that have the same half of the columns.
  std::string receivers = std::to_string((1 << shares) - 1);
  if (paired) receivers = fmt::format("{} << rank % 2", ((1 << 2 * shares) - 1) / 3);
  for (int copy = 0; copy < box.copies; ++copy) {
    const char* const share = paired ? "rank / 2" : "rank";
    std::string to = fmt::format("{} + at.stage * {}Tile::bytes", tiles, name), free = first;
    if (own_columns > 0) free += fmt::format(" + rank % 2 * {}", own_columns);
    std::string k = box.places.empty() ? fmt::format("{} * {}", tile, depth) : std::string(tile);
    if (along_depth) {
      if (shares > 1) {
        to += fmt::format(" + {} * {}", share, box.lines * depth * graph::byte_size(operand.dtype));
        free += fmt::format(" + {} * {}", share, box.lines);
      }
    } else {
      const std::string panel = shares > 1 && !box.parts_lines ? fmt::format("({} * {} + {})", share, box.copies, copy)
                                                               : std::to_string(copy);
      to += fmt::format(" + {} * {}Tile::panel_bytes", panel, name);
      free += fmt::format(" + {} * 64", panel);
      if (box.parts_lines) {
        to += fmt::format(" + {} * {}", share, box.lines * box.line_elements * graph::byte_size(operand.dtype));
        k += fmt::format(" + {} * {}", share, box.lines);
      }
    }
    if (!box.places.empty()) {
      std::string at;
      for (const TensorBox::Place& place : box.places)
        at += fmt::format("{}{}", at.empty() ? "" : ", ", place_text(place, k, free));
      out.line("{}({}, {}, {{{}{}}}, full, {});", copy_name(box, shares, paired), to, map, at,
               batch_coordinates(operand.batch), receivers);
      continue;
    }
    out.line("{}({}, {}, {{{}, {}{}}}, full, {});", copy_name(box, shares, paired), to, map, along_depth ? k : free,
             along_depth ? free : k, batch_coordinates(operand.batch), receivers);
  }
}

/// Opens the loop over the block's tiles, of which `stages` follow one another through stages or tiles of sums.
void open_tiles(Writer& out, const ContractionSchedule& s, const ContractionShape& shape, int stages) {
  out.line("StageOfTurn<{}> at;", stages);
  out.line("#pragma unroll 1");
  if (s.cluster == 1) {
    out.open("for (int tile = static_cast<int>(blockIdx.x); tile < {}; tile += static_cast<int>(gridDim.x))",
             shape.tiles);
  } else {
    out.open(
        "for (int tile = static_cast<int>(blockIdx.x) / {0}; tile < {1}; tile += static_cast<int>(gridDim.x) / {0})",
        s.cluster, shape.tiles / s.cluster);
  }
}

/// Of the left operand's tile, bytes that are brought: there may be fewer rows than it has.
std::int64_t left_bytes(const ContractionProblem& problem, const ContractionSchedule& s) {
  const std::int64_t line = s.block_depth * graph::byte_size(problem.left.dtype);
  if (!kernel::walks_windows(problem, s)) return s.block_rows * line;
  const Result<kernel::WindowWalk> walk = kernel::window_walk(problem, s.block_rows);
  return (walk ? walk->tile_rows() : s.block_rows) * line;
}

/// Opens the loops over a tile's turns: of each position of the window, so many features at a time.
void open_turns(Writer& out, const kernel::WindowWalk& walk, int block_depth) {
  for (std::size_t i = walk.depth.size(); i-- > 1;) {
    out.line("#pragma unroll 1");
    out.open("for (int {0} = 0; {0} < {1}; ++{0})", position_name(static_cast<int>(i)), walk.depth[i].extent);
  }
  out.line("#pragma unroll 1");
  out.open("for (int k = 0; k < {}; k += {})", walk.depth[0].extent, block_depth);
}

Status print_asking_warp(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                         const std::vector<NamedMap>& maps) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  // There are more blocks than stay only where some of them are verified, a tile each, which share no place.
  out.line("KeptMaps<{}>& own = maps[blockIdx.x % {}u];", maps.size() - 1, shape.grid);
  Hasher name;
  name.hash(kernel::contraction_hash(problem)).hash(kernel::schedule_hash(s));
  std::string names, begins;
  for (const NamedMap& map : maps) {
    const char* const comma = names.empty() ? "" : ", ";
    names += comma + map.name;
    begins += fmt::format("{}in{} + {}", comma, map.operand->parameter, map.box.offset);
  }
  out.line("keep_tensor_maps<{}>(own_maps, own, 0x{:x}u, {});", names, name.finish().low, begins);
  out.open("if (threadIdx.x % 32 == 0)");
  open_tiles(out, s, shape, s.stages);
  print_tile_place(out, problem, s, "tile");
  const int depth = out.depth();
  if (kernel::walks_windows(problem, s)) {
    STITCH_ASSIGN(const kernel::WindowWalk walk, kernel::window_walk(problem, s.block_rows));
    open_turns(out, walk, s.block_depth);
  } else {
    out.line("#pragma unroll 1");
    out.open("for (int k = 0; k < {}; ++k)", shape.depth_tiles);
  }
  const std::int64_t brought = left_bytes(problem, s);
  out.line("const u32 full = {}at, {} + RightTile::bytes{});", s.paired ? "expect_of_both(stages, " : "stages.expect(",
           brought < shape.left_bytes ? std::to_string(brought) : "LeftTile::bytes", s.paired ? ", rank" : "");
  const kernel::TensorShares shares = kernel::tensor_shares(problem, s);
  const bool summed = !problem.terms.empty();
  if (summed) print_term_of_tile(out, problem, s, "k");
  const char* const tile = summed ? "depth_tile" : "k";
  print_boxes(out, true, summed ? "own.left + term * 256" : "own.left", tile, problem.left, maps[0].box, s.block_depth,
              shares.left, s.paired, 0);
  print_boxes(out, false,
              summed            ? "own.right + term * 256"
              : maps.size() > 2 ? "own.right + member * 128"
                                : "own.right",
              tile, problem.right, maps[1].box, s.block_depth, shares.right, s.paired,
              s.paired ? kernel::right_columns(s) : 0);
  out.line("at.advance();");
  out.close(out.depth() - depth + 1);
  if (kernel::in_tensor_memory(s.instruction) && blocks_together(problem, s) > 1) {
    // Others' tensor cores tell this block's barriers: it stays until they have.
    out.line("for (int s = 0; s < {}; ++s, at.advance()) stages.wait_for_room(at);", s.stages);
  }
  out.close();
  out.line("__syncwarp();");
  return {};
}

/// Warps that take sums from tensor memory.
void print_taking_warps(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                        const std::function<void()>& results) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  if (s.row_blocks > 1) out.line("u32 turn = 0;");
  open_tiles(out, s, shape, shape.sum_turns);
  print_tile_place(out, problem, s, "tile");
  print_taken_sums(out, problem, s, results);
  out.close();
}

void print_multiplying_warps(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                             const std::function<void()>& results) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  if (s.row_blocks > 1) out.line("u32 turn = 0;");
  open_tiles(out, s, shape, s.stages);
  print_tile_place(out, problem, s, "tile");
  out.line("Cores cores;");
  const bool promotes = kernel::promotes(s.instruction);
  if (problem.scales) {
    out.line("constexpr int first_k = 0;");
    print_first_scales(out, problem);
  }
  if (!promotes) out.line("int before = 0;");
  out.line("#pragma unroll 1");
  out.open("for (int k = 0; k < {}; ++k)", shape.depth_tiles);
  out.line("stages.wait_for(at);");
  out.line(
      "cores.begin(shared + at.stage * LeftTile::bytes, right_tiles + at.stage * RightTile::bytes, group_row, "
      "warp_column);");
  if (promotes) {  // while one warpgroup adds, another one multiplies
    print_promoted_part(out, problem, s, "k", [&] { out.line("stages.release(at.stage);"); });
    out.line("at.advance();");
    out.close();
    results();
    out.close();
    return;
  }
  out.line("wait_for_products<1>();");
  out.line("if (k > 0) stages.release(before);");
  out.line("before = at.stage;");
  out.line("at.advance();");
  out.close();
  out.line("wait_for_products<0>();");
  out.line("settle_results(cores);");
  out.line("stages.release(before);");
  results();
  out.close();
}

}  // namespace

std::int64_t tensor_maps_bytes(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  return kernel::shape_of(problem, schedule).grid * kept_maps_bytes(problem);
}

Status print_tensor_maps(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  STITCH_ASSIGN(const std::vector<NamedMap> maps, maps_of(problem, schedule));
  for (const NamedMap& map : maps) print_tensor_map(out, map.name, graph::byte_size(map.operand->dtype), map.box);
  return {};
}

Status print_staying_blocks(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                            const std::string& wait, const std::function<void()>& results) {
  STITCH_ASSIGN(const std::vector<NamedMap> maps, maps_of(problem, s));
  const ContractionShape shape = kernel::shape_of(problem, s);
  const bool tensor_memory = kernel::in_tensor_memory(s.instruction);
  out.line("unsigned char* const right_tiles = shared + {} * LeftTile::bytes;", s.stages);
  out.line("unsigned char* const own_maps = right_tiles + {} * RightTile::bytes;", s.stages);
  const int together = blocks_together(problem, s);
  // Those who have done with a stage: each warp that multiplies, or the block's tensor cores; of a pair both
  // at once.
  out.line("const TensorStages<{}, {}, {}{}> stages{{shared_address(own_maps + {})}};", s.stages,
           tensor_memory ? 1 : shape.warps, together, s.paired ? fmt::format(", {}", together / 2) : "",
           kernel::tensor_maps(problem) * kernel::tensor_map_bytes);
  if (together > 1) out.line("const int rank = block_of_cluster();");
  print_warpgroup_place(out, s);
  print_row_barriers(out, problem, s);
  if (tensor_memory) print_tensor_memory(out, problem, s);
  if (const std::int64_t brought = left_bytes(problem, s); brought < shape.left_bytes) {
    out.line("clear_idle_lines<{}, LeftTile::bytes, {}, {}>(shared);", s.stages, brought, shape.threads);
    if (s.paired) {
      out.line("meet_in_pair();  // the first block has idle lines of both multiplied");
    } else if (together > 1) {
      out.line("__syncthreads();  // blocks of a cluster meet without an order of memory");
    }
  }
  out.line("stages.begin();");
  if (tensor_memory) print_tensor_memory_place(out, problem, s, together);
  out.line("{}", wait);
  out.open("if (warp == {})", shape.warps);
  STITCH_TRY(print_asking_warp(out, problem, s, maps));
  out.close();
  if (tensor_memory) print_multiplying_thread(out, problem, s, together, [&] { open_tiles(out, s, shape, s.stages); });
  out.open("else");
  (tensor_memory ? print_taking_warps : print_multiplying_warps)(out, problem, s, results);
  out.close();
  out.line("stages.end();");
  if (tensor_memory) print_tensor_memory_end(out, problem, s, together);
  return {};
}

}  // namespace stitch::codegen
