#include "codegen/contraction/attention_kernel.h"

#include <numbers>

#include "codegen/contraction/attention_warpgroup_text.h"
#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/result_text.h"
#include "codegen/contraction/walk_text.h"
#include "codegen/index_text.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"
#include "codegen/writer.h"
#include "kernel/attention/turn_part.h"
#include "kernel/attention/visible_keys.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/pipeline/pipelining.h"

namespace stitch::codegen {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::AttentionShape;
namespace pipeline = kernel::pipeline;
using pipeline::TileNest;
using pipeline::TileStatement;

/// Buffers of the nest, in this order.
enum AttentionBuffer : int { keys_memory, values_memory, key_tile, value_tile };

/// By which logits may be above the one that a row's weights are relative to: 2^8, so that weights are within f16.
constexpr double most_growth = 8 * std::numbers::ln2;

class AttentionPrinter {
 public:
  AttentionPrinter(const AttentionProblem& problem, const AttentionSchedule& schedule, const GenerateOptions& options)
      : p_(problem),
        s_(schedule),
        options_(options),
        shape_(kernel::shape_of(problem, schedule)),
        walk_(kernel::key_walk(problem, schedule)) {}

  Result<GeneratedKernel> print() {
    STITCH_ASSIGN(const ContractionEpilogue score, print_epilogue(p_.scores, "Score", true));
    STITCH_ASSIGN(const ContractionEpilogues epilogues, print_epilogues(p_.product, "Epilogue"));
    if (p_.dropout) {
      STITCH_ASSIGN(dropout_, print_epilogue(*p_.dropout, "Dropout"));
    }
    if (s_.skips && !p_.stores_operands()) {
      STITCH_ASSIGN(shown_, print_shown_keys(p_));
    }
    seen_ = kernel::seen_keys(p_, s_, shown_ ? std::optional(shown_->limit.compared) : std::nullopt);
    TileNest nest;
    if (!warpgroup()) {
      STITCH_ASSIGN(nest, attention_nest(p_, s_));
    }
    add_arguments(score, epilogues.results.front());
    print_head(out_, options_, kernel::to_string(p_), kernel::to_string(s_),
               warpgroup() ? "warpgroup_attention.cuh" : "attention.cuh");
    print_tiles();
    print_cores();
    print_factor();
    out_.line("using Rows = End<{}, {}>;", p_.rows(), p_.rows() % s_.block_rows == 0);
    out_.line("using Keys = End<{}, {}>;", p_.keys(), whole_keys());
    out_.blank();
    out_.append(score.code);
    out_.append(epilogues.results.front().code);
    out_.append(dropout_.code);
    if (shown_) out_.append(shown_->bound.code);
    out_.blank();
    emit_namespace_end(out_);
    print_kernel(score, epilogues, nest);
    kernel_.name = options_.name;
    kernel_.source = out_.text();
    kernel_.blocks = shape_.blocks;
    kernel_.threads = shape_.threads;
    kernel_.shared_bytes = shape_.shared_bytes;
    return std::move(kernel_);
  }

 private:
  [[nodiscard]] bool warpgroup() const { return is_warpgroup(s_.instruction); }
  /// Whether no tile reaches beyond the keys: of a walk that begins behind the first ones, the prologue's copies may.
  [[nodiscard]] bool whole_copies() const { return whole_keys() && !walk_.below; }
  /// Whether no tile of a turn does.
  [[nodiscard]] bool whole_keys() const {
    return p_.keys() % (s_.split == 1 ? s_.block_keys : shape_.key_tiles * s_.split * s_.block_keys) == 0;
  }

  void print_tiles() {
    const kernel::ContractionSchedule &scores = shape_.scores, &product = shape_.product;
    const bool whole_depth = p_.depth() == scores.block_depth;
    print_operand(out_, "Query", p_.scores.left, p_.rows(), p_.depth(),
                  {s_.block_rows, scores.block_depth, s_.query_copy, true, warpgroup(), p_.rows() % s_.block_rows == 0,
                   whole_depth});
    print_operand(out_, "Key", p_.scores.right, p_.keys(), p_.depth(),
                  {s_.block_keys, scores.block_depth, s_.key_copy, true, warpgroup(), whole_copies(), whole_depth},
                  pages(key_pages_));
    print_operand(out_, "Value", p_.product.right, p_.width(), p_.keys(),
                  {product.block_columns, s_.block_keys, s_.value_copy, true, warpgroup(),
                   p_.width() == product.block_columns, whole_copies()},
                  pages(value_pages_));
    if (p_.updated_keys) print_new(true, *p_.updated_keys);
    if (p_.updated_values) print_new(false, *p_.updated_values);
  }

  [[nodiscard]] std::optional<PagesText> pages_of(const std::optional<kernel::PagedOperand>& paged) const {
    if (!paged) return std::nullopt;
    return PagesText{*paged, p_.graph->node(p_.graph->parameters()[paged->table]).type().dtype};
  }
  static const PagesText* pages(const std::optional<PagesText>& text) { return text ? &*text : nullptr; }

  /// Where what is new of keys or values lies.
  void print_new(bool keys, const kernel::UpdatedOperand& updated) {
    print_operand(out_, keys ? "NewKey" : "NewValue", updated.update, keys ? updated.keys : p_.width(),
                  keys ? p_.depth() : updated.keys, {1, 1, graph::byte_size(updated.update.dtype)});
  }

  /// Where new keys begin, and where the whole is stored: by the blocks of a batch's first rows.
  void print_update(bool keys, const std::optional<kernel::UpdatedOperand>& updated) {
    if (!updated) return;
    const std::string_view name = keys ? "key" : "value", type = keys ? "Key" : "Value";
    out_.line("const New{0} new_{1}s = {{in{2} + New{0}::of_batch(batch)}};", type, name, updated->update.parameter);
    if (updated->start < 0) {
      out_.line("constexpr int first_new_{} = {};", name, updated->first);
    } else {
      out_.line("const int first_new_{} = first_new(in{}[0], {});", name, updated->start, p_.keys() - updated->keys);
    }
    std::string kept = "nullptr";
    if (updated->result >= 0) kept = fmt::format("out{} + {}::of_batch(batch)", updated->result, type);
    if (updated->result >= 0 && shape_.row_tiles > 1) kept = "row_tile == 0 ? " + kept + " : nullptr";
    out_.line("{}* const kept_{}s = {};", storage_type(updated->update.dtype), name, kept);
  }

  void print_tile_update(const TileNest& nest, bool keys, const std::optional<kernel::UpdatedOperand>& updated,
                         const pipeline::TileAccess& tile) {
    if (!updated) return;
    const std::string_view name = keys ? "key" : "value";
    const std::string first = fmt::format("first_key + ({}) * {}", text_of(nest, tile.tile), s_.block_keys);
    out_.line("update_tile<{}Tile, {}, {}, {}, {}>({}, {}s, new_{}s, first_new_{}, kept_{}s, {}, {});",
              keys ? "Key" : "Value", shape_.threads, updated->keys, keys, updated->result >= 0, tile_text(nest, tile),
              name, name, name, name, keys ? first : "0", keys ? "0" : first);
  }

  void print_cores() {
    if (warpgroup()) {
      print_attention_wgmma(out_, p_, shape_);
      return print_attention_cores(out_, p_, shape_);
    }
    const kernel::ContractionSchedule &scores = shape_.scores, &product = shape_.product;
    out_.line("using WeightTile = OperandTile<{}, {}, {}, true, 4, true>;", storage_type(p_.product.left.dtype),
              s_.warp_rows, s_.block_keys);
    out_.line("using Scores = {};", cores_of(p_.scores, scores, "Query", "Key", kernel::turn_left_run));
    out_.line("using Weighted = {};", cores_of(p_.product, product, "Weight", "Value", kernel::turn_left_run));
    out_.line("using Weights = {};", shape_.weight_bytes == 0 ? "WeightsInRegisters" : "WeightsInShared<WeightTile>");
  }

  /// An f32 as it is written.
  static std::string f32_text(double x) {
    const std::string digits = fmt::format("{:.9g}", x);
    return digits.find_first_of(".e") == std::string::npos ? digits + ".f" : digits + "f";
  }

  /// What visible logits are the sums times of, if that is a constant.
  void print_factor() {
    const std::optional<double> factor = kernel::logit_factor(p_);
    const double value = factor.value_or(1);
    out_.open("struct Logits");
    out_.line("static constexpr bool scaled = {};", factor.has_value());
    out_.line("static constexpr f32 log2_factor = {}, growth = {};", f32_text(value * std::numbers::log2e),
              f32_text(most_growth / value));
    if (has_statistics()) out_.line("static constexpr f32 factor = {};", f32_text(value));
    out_.set_depth(0);
    out_.line("}};");
  }

  void add_arguments(const ContractionEpilogue& score, const ContractionEpilogue& epilogue) {
    std::set<int> read = score.parameters;
    read.insert(epilogue.parameters.begin(), epilogue.parameters.end());
    read.insert(dropout_.parameters.begin(), dropout_.parameters.end());
    if (shown_) read.insert(shown_->bound.parameters.begin(), shown_->bound.parameters.end());
    read.insert({p_.scores.left.parameter, p_.scores.right.parameter, p_.product.right.parameter});
    for (const auto* updated : {&p_.updated_keys, &p_.updated_values}) {
      if (!*updated) continue;
      read.insert((*updated)->update.parameter);
      if ((*updated)->start >= 0) read.insert((*updated)->start);
    }
    for (const auto* paged : {&p_.paged_keys, &p_.paged_values}) {
      if (*paged) read.insert((*paged)->table);
    }
    arguments_.add_tensors(*p_.graph, read);
    if (s_.split == 1) return;
    kernel_.scratch = {{shape_.part_bytes, false}, {4 * shape_.tiles, true}};
    arguments_.add({kernel::Buffer::Kind::scratch, 0}, "f32* __restrict__ parts");
    arguments_.add({kernel::Buffer::Kind::scratch, 1}, "u32* __restrict__ arrived");
  }

  void print_kernel(const ContractionEpilogue& score, const ContractionEpilogues& epilogues, const TileNest& nest) {
    out_.line("extern \"C\" __global__ void {}", launch_bounds(shape_.threads, s_.blocks_per_sm));
    out_.open("{}({})", options_.name, arguments_.text());
    const std::string wait = arguments_.wait(p_.keys() == 0);
    if (shape_.tiles == 0) {
      out_.line("{}", wait);
      out_.close();
      return;
    }
    out_.line("extern __shared__ __align__({}) unsigned char shared[];", warpgroup() ? 1024 : 128);
    print_place();
    // Lengths are read behind the launch before, which may write them.
    if (!shown_) print_walk();
    out_.line("{}", wait);
    if (shown_) print_walk();
    out_.line("const Query queries = {{in{} + Query::of_batch(batch)}};", p_.scores.left.parameter);
    out_.line("const Key keys = {};", operand_members("Key", p_.scores.right, pages(key_pages_)));
    out_.line("const Value values = {};", operand_members("Value", p_.product.right, pages(value_pages_)));
    print_update(true, p_.updated_keys);
    print_update(false, p_.updated_values);
    print_instance("score", score);
    if (p_.dropout) print_instance("dropout", dropout_);
    out_.line("unsigned char* const query_tile = shared;");
    out_.line("unsigned char* const key_tiles = query_tile + QueryTile::bytes;");
    out_.line("unsigned char* const value_tiles = key_tiles + {} * KeyTile::bytes;", s_.stages);
    if (!warpgroup()) {
      out_.line("unsigned char* const weights = {};",
                shape_.weight_bytes == 0
                    ? "nullptr"
                    : fmt::format("value_tiles + {} * ValueTile::bytes + warp * WeightTile::bytes", s_.stages));
    }
    out_.line("AttentionRows<Scores{}> rows;", has_statistics() ? ", true" : "");
    out_.line("Weighted product;");
    out_.blank();
    out_.line("copy_tile<QueryTile, {}>(query_tile, queries, block_row, 0);", shape_.threads);
    if (warpgroup()) {
      print_warpgroup_loop();
    } else {
      out_.line("commit_copies();");
      print_nest(
          out_, nest, [&](const TileStatement& s) { print_copy(nest, s); },
          [&](const TileStatement& s) { print_compute(nest, s); }, walks_some() ? "turns" : "");
    }
    print_end(epilogues);
    out_.close();
  }

  void print_instance(std::string_view name, const ContractionEpilogue& of) {
    if (of.made_of.empty()) {
      out_.line("const {} {}{{{}}};", of.name, name, of.members);
    } else {
      out_.line("const {0} {1} = {0}::of({2});", of.name, name, of.made_of);
    }
  }

  void print_warpgroup_loop() {
    WarpgroupLoop loop{s_, walks_some() ? "turns" : std::to_string(shape_.key_tiles), walks_some(), false, {}, {}};
    loop.copy = [&](bool keys, const std::string& place, const std::string& tile) {
      print_tile_copy(keys, place, tile);
    };
    loop.drops = p_.dropout.has_value();
    loop.seen = [&](const std::string& tile) { return seen_text(tile); };
    print_warpgroup_attention(out_, loop);
  }

  /// Which rows the block has.
  void print_place() {
    if (s_.split > 1) {
      out_.line("const int part = static_cast<int>(blockIdx.x) % {};", s_.split);
      out_.line("const int tile = static_cast<int>(blockIdx.x) / {};", s_.split);
    } else {
      out_.line("const int tile = static_cast<int>(blockIdx.x);");
    }
    print_row_tile(out_, walk_, {shape_.row_tiles, s_.block_rows, s_.warp_rows, warpgroup()});
  }

  /// Which of its tiles of keys the block's rows see as a whole.
  void print_seen() {
    if (!seen_ || sees_all()) return;
    const std::int64_t keys = s_.block_keys;
    const std::string begin = fmt::format("row_tile % {} * {}", seen_->period, s_.block_rows);
    std::string first = "0", last = std::to_string(p_.keys() / keys);
    if (seen_->below) first = fmt::format("maximum(0, {} + {}) / {}", begin, *seen_->below, keys);
    if (seen_->above)
      last = fmt::format("minimum({}, maximum(0, {} + {}) / {})", last, begin, *seen_->above + keys, keys);
    if (shown_) last = fmt::format("minimum({}, shown / {})", last, keys);
    if (p_.rows() % s_.block_rows != 0)
      last = fmt::format("block_row + {} > {} ? 0 : {}", s_.block_rows, p_.rows(), last);
    out_.line("const int first_seen = {} - first_tile, end_of_seen = ({}) - first_tile;", first, last);
  }
  [[nodiscard]] bool sees_all() const {
    return seen_ && !shown_ && !seen_->below && !seen_->above && p_.rows() % s_.block_rows == 0 && whole_keys();
  }
  [[nodiscard]] std::string seen_text(const std::string& tile) const {
    if (sees_all()) return "true";
    return seen_ ? fmt::format("{0} >= first_seen && {0} < end_of_seen", tile) : "false";
  }

  /// Which tiles of keys the block walks: of those that its rows see, its part. Rows that see none have all.
  void print_walk() {
    const std::int64_t tiles = kernel::divided_up(p_.keys(), s_.block_keys);
    const std::string first = s_.split > 1 ? fmt::format("part * {}", shape_.key_tiles) : "0";
    const std::string last =
        s_.split > 1 ? fmt::format("minimum({} + {}, {})", first, shape_.key_tiles, tiles) : std::to_string(tiles);
    WalkedTiles walked{s_.block_rows, s_.block_keys, first, last, "", ""};
    if (shown_) {
      out_.line("const Bound bound{{{}}};", shown_->bound.members);
      out_.line("const int shown = shown_keys(bound(0.f, batch, 0, 0), {}, {});", shown_->limit.shown, p_.keys());
      walked.shown = "shown";
      walked.end_of_shown = fmt::format("(shown + {}) / {}", s_.block_keys - 1, s_.block_keys);
    }
    codegen::print_walk(out_, walk_, walked);
    out_.line("const int first_key = first_tile * {};", s_.block_keys);
    print_seen();
  }
  [[nodiscard]] bool walks_some() const { return codegen::walks_some(walk_) || shown_; }

  /// Where a stage of keys or values begins.
  [[nodiscard]] std::string tile_text(const TileNest& nest, const pipeline::TileAccess& access) const {
    const bool keys = access.buffer == key_tile;
    return fmt::format("{} + {} * {}Tile::bytes", keys ? "key_tiles" : "value_tiles", text_of(nest, access.stage),
                       keys ? "Key" : "Value");
  }

  void print_copy(const TileNest& nest, const TileStatement& s) {
    print_tile_copy(s.to.buffer == key_tile, tile_text(nest, s.to), text_of(nest, s.to.tile));
  }
  void print_tile_copy(bool keys, const std::string& place, const std::string& tile) {
    const std::string first = fmt::format("first_key + ({}) * {}", tile, s_.block_keys);
    out_.line("copy_tile<{}Tile, {}>({}, {}, {}, {});", keys ? "Key" : "Value", shape_.threads, place,
              keys ? "keys" : "values", keys ? first : "0", keys ? "0" : first);
  }

  void print_compute(const TileNest& nest, const TileStatement& s) {
    const int depth_steps = kernel::shape_of(p_.scores, shape_.scores).depth_steps;
    const int key_steps = kernel::shape_of(p_.product, shape_.product).depth_steps;
    const std::string tile = text_of(nest, s.reads[0].tile);
    print_tile_update(nest, true, p_.updated_keys, s.reads[0]);
    print_tile_update(nest, false, p_.updated_values, s.reads[1]);
    out_.line("attend<Rows, Keys, Logits, {}, {}, Weights>(product, rows, score, query_tile, {}, {}, weights, {},",
              depth_steps, key_steps, tile_text(nest, s.reads[0]), tile_text(nest, s.reads[1]), seen_text(tile));
    out_.line("    batch, block_row + warp_row, warp_row, first_key + {} * {}{});", tile, s_.block_keys,
              p_.dropout ? ", dropout" : "");
  }

  void print_end(const ContractionEpilogues& epilogues) {
    out_.blank();
    if (s_.split > 1) {
      out_.line("using Parts = AttentionParts<{}, Logits, Scores, Weighted{}>;", shape_.threads,
                has_statistics() ? ", true" : "");
      out_.line("Parts::leave(product, rows, parts, tile, {}, part);", s_.split);
      out_.line("if (!arrives_last(arrived + tile, {}u)) return;", s_.split);
      out_.line("Parts::join(product, rows, parts, tile, {});", s_.split);
    }
    print_statistics();
    out_.line("divide_by_sums<{}, {}>(product, rows{});", p_.empty_is_zero, p_.nan_is_zero,
              p_.weight_scale == 1 ? "" : ", " + f32_text(p_.weight_scale));
    print_results(out_, p_.product, shape_.product, {&epilogues, 1}, "product", "0", p_.result);
  }

  [[nodiscard]] bool has_statistics() const { return !p_.statistics.empty(); }
  /// Of each row, by one of its lanes.
  void print_statistics() {
    if (!has_statistics()) return;
    out_.open("const auto write_statistics = [&](int row, f32 greatest, f32 sum)");
    out_.line("if (row >= {}) return;", p_.rows());
    for (const kernel::RowStatistic& each : p_.statistics) {
      out_.line("out{}[{}] = {};", each.result, sum_of({offset_of(each.batch, "batch"), offset_of(each.rows, "row")}),
                each.kind == graph::ReduceKind::max ? "greatest" : "sum");
    }
    out_.set_depth(out_.depth() - 1);
    out_.line("}};");
    out_.line("store_statistics<Logits>(rows, block_row + warp_row, write_statistics);");
  }

  const AttentionProblem& p_;
  const AttentionSchedule& s_;
  const GenerateOptions& options_;
  const AttentionShape shape_;
  const kernel::KeyWalk walk_;
  const std::optional<PagesText> key_pages_ = pages_of(p_.paged_keys), value_pages_ = pages_of(p_.paged_values);
  std::optional<ShownKeys> shown_;
  std::optional<kernel::KeyWalk> seen_;
  ContractionEpilogue dropout_;  ///< empty: there is none
  Writer out_;
  GeneratedKernel kernel_;
  ArgumentList arguments_{kernel_};
};

}  // namespace

Result<TileNest> attention_nest(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const AttentionShape shape = kernel::shape_of(problem, schedule);
  TileNest nest;
  for (const char* name : {"keys", "values"}) nest.add_buffer(name, pipeline::Scope::device);
  for (const char* name : {"key_tile", "value_tile"}) nest.add_buffer(name, pipeline::Scope::shared);
  const int tiles = nest.add_loop("j", shape.key_tiles);
  const kernel::Index j = nest.loops[tiles].variable, zero = nest.pool.constant(0);
  TileStatement compute;
  compute.kind = TileStatement::Kind::compute;
  compute.name = "attend";
  compute.reads = {{key_tile, j, zero}, {value_tile, j, zero}};
  nest.body = {pipeline::tile_loop(
      tiles, {pipeline::tile_copy({key_tile, j, zero}, {keys_memory, j, zero}),
              pipeline::tile_copy({value_tile, j, zero}, {values_memory, j, zero}), std::move(compute)})};
  return pipeline::pipelined(std::move(nest), {1, 1, schedule.stages, schedule.stages});
}

Result<GeneratedKernel> generate_attention(const AttentionProblem& problem, const AttentionSchedule& schedule,
                                           const GenerateOptions& options) {
  return AttentionPrinter(problem, schedule, options).print();
}

}  // namespace stitch::codegen
