#include "codegen/contraction/chain_kernel.h"

#include <algorithm>

#include "codegen/contraction/attention_warpgroup_text.h"
#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/result_text.h"
#include "codegen/contraction/walk_text.h"
#include "codegen/contraction/weight_text.h"
#include "codegen/kernel_text.h"
#include "codegen/spelling.h"
#include "codegen/writer.h"
#include "kernel/attention/turn_part.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/pipeline/pipelining.h"

namespace stitch::codegen {
namespace {

using kernel::ChainSchedule;
using kernel::ChainShape;
using kernel::ContractionProblem;
using kernel::ProductChain;
namespace pipeline = kernel::pipeline;
using pipeline::TileNest;
using pipeline::TileStatement;

/// What a turn brings: the right operand of a score, or that of a product which no score's serves.
struct Walked {
  std::string name;  ///< of its structure
  const kernel::ContractionOperand* operand = nullptr;
  bool of_score = false;  ///< walked along its free dimension, not along the contracted one
  int rows = 0, depth = 0, copy = 0;
};

std::vector<Walked> walked_by(const ProductChain& chain, const ChainShape& shape) {
  std::vector<Walked> all;
  for (std::size_t i = 0; i < chain.scores.size(); ++i) {
    const kernel::ContractionSchedule& part = shape.scores[i];
    all.push_back({fmt::format("Walked{}", i), &chain.scores[i].right, true, part.block_columns, part.block_depth,
                   part.right_copy});
  }
  for (std::size_t r = 0; r < chain.products.size(); ++r) {
    if (chain.shared_operand(r) >= 0) continue;
    const kernel::ContractionSchedule& part = shape.products[r];
    all.push_back({fmt::format("Other{}", r), &chain.products[r].right, false, part.block_columns, part.block_depth,
                   part.right_copy});
  }
  return all;
}

class ChainPrinter {
 public:
  ChainPrinter(const ProductChain& chain, const ChainSchedule& schedule, const GenerateOptions& options)
      : c_(chain),
        s_(schedule),
        options_(options),
        shape_(kernel::shape_of(chain, schedule)),
        walk_(kernel::chain_walk(chain, schedule)),
        walked_(walked_by(chain, shape_)) {}

  Result<GeneratedKernel> print() {
    STITCH_ASSIGN(weights_, print_weights(c_));
    STITCH_TRY(find_shown());
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      STITCH_ASSIGN(ContractionEpilogues each, print_epilogues(c_.products[r], fmt::format("Epilogue{}", r)));
      epilogues_.push_back(std::move(each));
    }
    TileNest nest;
    if (!warpgroup()) {
      STITCH_ASSIGN(nest, chain_nest(c_, s_));
    }
    add_arguments();
    print_head(out_, options_, kernel::to_string(c_), kernel::to_string(s_), "chain.cuh",
               warpgroup() ? "warpgroup_attention.cuh" : "");
    print_tiles();
    print_cores();
    out_.line("using Rows = End<{}, {}>;", c_.rows(), c_.rows() % s_.block_rows == 0);
    out_.line("using Columns = End<{}, {}>;", c_.columns(), whole_columns());
    out_.blank();
    out_.append(weights_.code);
    if (shown_) out_.append(shown_->bound.code);
    for (const ContractionEpilogues& each : epilogues_) out_.append(each.results.front().code);
    out_.blank();
    emit_namespace_end(out_);
    print_kernel(nest);
    kernel_.name = options_.name;
    kernel_.source = out_.text();
    kernel_.blocks = shape_.blocks;
    kernel_.threads = shape_.threads;
    kernel_.shared_bytes = shape_.shared_bytes;
    return std::move(kernel_);
  }

 private:
  [[nodiscard]] bool warpgroup() const { return is_warpgroup(s_.instruction); }
  [[nodiscard]] bool whole_columns() const { return c_.columns() % s_.block_columns == 0; }
  /// Of a walk that begins behind the first tiles, the prologue's copies may reach beyond the columns.
  [[nodiscard]] bool whole_copies() const { return whole_columns() && !walk_.below; }

  /// Keys that a length hides need not be walked where they are columns, and have gradients of 0 where they are rows.
  Status find_shown() {
    if (!c_.mask) return {};
    for (const kernel::LimitOf of : {kernel::LimitOf::columns, kernel::LimitOf::rows}) {
      STITCH_ASSIGN(shown_, print_shown_keys(*c_.mask, of));
      shows_rows_ = of == kernel::LimitOf::rows;
      if (shown_) break;
    }
    return {};
  }

  void add_arguments() {
    std::set<int> read = weights_.parameters;
    if (shown_) read.insert(shown_->bound.parameters.begin(), shown_->bound.parameters.end());
    for (const ContractionEpilogues& each : epilogues_) {
      const std::set<int>& more = each.results.front().parameters;
      read.insert(more.begin(), more.end());
    }
    for (const ContractionProblem& score : c_.scores) read.insert({score.left.parameter, score.right.parameter});
    for (const ContractionProblem& product : c_.products) read.insert(product.right.parameter);
    arguments_.add_tensors(*c_.graph, read);
  }

  void print_tiles() {
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      const ContractionProblem& score = c_.scores[i];
      const int depth = shape_.scores[i].block_depth;
      print_operand(out_, fmt::format("Row{}", i), score.left, c_.rows(), score.contracted,
                    {s_.block_rows, depth, shape_.scores[i].left_copy, true, warpgroup(),
                     c_.rows() % s_.block_rows == 0, score.contracted == depth});
    }
    for (const Walked& each : walked_) {
      const std::int64_t along = each.of_score ? c_.columns() : 0;
      const std::size_t number = &each - walked_.data();
      const std::int64_t extent = each.of_score ? c_.scores[number].contracted : product_of(each).columns;
      const bool whole_extent = extent == (each.of_score ? each.depth : each.rows);
      const std::int64_t rows = each.of_score ? along : extent, depth = each.of_score ? extent : c_.columns();
      print_operand(out_, each.name, *each.operand, rows, depth,
                    {each.rows, each.depth, each.copy, true, warpgroup(), each.of_score ? whole_copies() : whole_extent,
                     each.of_score ? whole_extent : whole_copies()});
    }
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      const int score = c_.shared_operand(r);
      if (score < 0) continue;
      if (warpgroup()) {
        out_.line("using Other{}Tile = PanelTile<{}, {}, {}, {}>;", r, storage_type(c_.products[r].right.dtype),
                  shape_.products[r].block_columns, s_.block_columns, shape_.scores[score].right_copy);
      } else {
        out_.line("using Other{}Tile = TurnedTile<Walked{}Tile>;", r, score);
      }
    }
  }
  /// Of an operand that is a product's alone.
  [[nodiscard]] const ContractionProblem& product_of(const Walked& walked) const {
    for (const ContractionProblem& product : c_.products) {
      if (&product.right == walked.operand) return product;
    }
    return c_.products.front();
  }

  void print_warpgroup_cores() {
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      print_score_wgmma(out_, fmt::format("ScoreProduct{}", i), c_.scores[i], s_.block_columns);
      out_.line("using Scores{0} = WarpgroupScores<ScoreProduct{0}, Row{0}Tile, Walked{0}Tile, {1}, {2}, {3}>;", i,
                shape_.scores[i].block_depth, s_.warp_rows, s_.block_columns);
    }
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      const int width = shape_.products[r].block_columns;
      print_weighted_wgmma(out_, fmt::format("WeightedProduct{}", r), c_.products[r], width);
      out_.line("using Weights{} = WarpgroupWeights<{}, {}, {}>;", r, storage_type(c_.products[r].left.dtype),
                s_.warp_rows, s_.block_columns);
      out_.line("using Product{0} = WarpgroupResults<WeightedProduct{0}, Weights{0}, Other{0}Tile, {1}, {2}>;", r,
                s_.warp_rows, width);
    }
  }

  void print_cores() {
    if (warpgroup()) return print_warpgroup_cores();
    const bool shared = shape_.weight_bytes != 0;
    // A lane has the same columns of all scores.
    int run = kernel::widest_bytes;
    for (std::size_t i = 0; i < c_.scores.size(); ++i)
      run = std::min(run, kernel::core_run(c_.scores[i].right, shape_.scores[i].thread_columns));
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      out_.line("using Scores{} = {};", i,
                cores_of(c_.scores[i], shape_.scores[i], fmt::format("Row{}", i), fmt::format("Walked{}", i),
                         kernel::turn_left_run, run));
    }
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      out_.line("using Weight{}Tile = OperandTile<{}, {}, {}, true, 4, true>;", r,
                storage_type(c_.products[r].left.dtype), s_.warp_rows, s_.block_columns);
      out_.line("using Product{} = {};", r,
                cores_of(c_.products[r], shape_.products[r], fmt::format("Weight{}", r), fmt::format("Other{}", r),
                         kernel::turn_left_run));
      out_.line("using Weights{} = {};", r,
                shared ? fmt::format("WeightsInShared<Weight{}Tile>", r) : "WeightsInRegisters");
    }
  }

  void print_kernel(const TileNest& nest) {
    out_.line("extern \"C\" __global__ void {}", launch_bounds(shape_.threads, s_.blocks_per_sm));
    out_.open("{}({})", options_.name, arguments_.text());
    const std::string wait = arguments_.wait(false);
    if (shape_.tiles == 0) {
      out_.line("{}", wait);
      out_.close();
      return;
    }
    out_.line("extern __shared__ __align__({}) unsigned char shared[];", warpgroup() ? 1024 : 128);
    print_place();
    // Lengths are read behind the launch before, which may write them.
    if (!shown_) print_columns();
    out_.line("{}", wait);
    if (shown_) print_columns();
    print_memory();
    for (std::size_t r = 0; r < c_.products.size(); ++r) out_.line("Product{0} product{0};", r);
    out_.line("const Weigh weigh{{{}}};", weights_.members);
    out_.blank();
    for (std::size_t i = 0; i < c_.scores.size(); ++i)
      out_.line("copy_tile<Row{0}Tile, {1}>(row_tile{0}, rows{0}, block_row, 0);", i, shape_.threads);
    if (!warpgroup()) out_.line("commit_copies();");
    out_.line("Weigh::Row of_rows[Scores0::own_rows];");
    out_.line("keep_rows<Rows, Scores0>(of_rows, weigh, batch, block_row + warp_row);");
    if (warpgroup()) {
      print_warpgroup_turns();
    } else {
      print_nest(
          out_, nest, [&](const TileStatement& s) { print_copy(nest, s); },
          [&](const TileStatement& s) { print_compute(nest, s); }, walks_some() ? "turns" : "");
    }
    print_end();
    out_.close();
  }

  /// Which rows the block has.
  void print_place() {
    out_.line("const int tile = static_cast<int>(blockIdx.x);");
    print_row_tile(out_, walk_, {shape_.row_tiles, s_.block_rows, s_.warp_rows, warpgroup()});
  }
  void print_columns() {
    WalkedTiles walked{s_.block_rows, s_.block_columns, "0", std::to_string(shape_.column_tiles), "", ""};
    if (shown_) {
      out_.line("const Bound bound{{{}}};", shown_->bound.members);
      out_.line("const int shown = shown_keys(bound(0.f, batch, 0, 0), {}, {});", shown_->limit.shown,
                shows_rows_ ? c_.rows() : c_.columns());
      walked.shown = "shown";
      walked.end_of_shown = shows_rows_ ? fmt::format("(block_row < shown ? {} : 0)", walked.last)
                                        : fmt::format("(shown + {}) / {}", s_.block_columns - 1, s_.block_columns);
    }
    print_walk(out_, walk_, walked);
    out_.line("const int first_column = first_tile * {};", s_.block_columns);
  }
  [[nodiscard]] bool walks_some() const { return codegen::walks_some(walk_) || shown_; }

  /// Operands, and where their tiles are in shared memory.
  void print_memory() {
    std::string place = "shared";
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      out_.line("const Row{0} rows{0} = {{in{1} + Row{0}::of_batch(batch)}};", i, c_.scores[i].left.parameter);
      out_.line("unsigned char* const row_tile{} = {};", i, place);
      place = fmt::format("row_tile{0} + Row{0}Tile::bytes", i);
    }
    for (std::size_t w = 0; w < walked_.size(); ++w) {
      out_.line("const {0} walked{1} = {{in{2} + {0}::of_batch(batch)}};", walked_[w].name, w,
                walked_[w].operand->parameter);
      out_.line("unsigned char* const walked_tiles{} = {};", w, place);
      place = fmt::format("walked_tiles{} + {} * {}Tile::bytes", w, s_.stages, walked_[w].name);
    }
    if (warpgroup()) return;
    out_.line("unsigned char* const weights = {};",
              shape_.weight_bytes == 0 ? "nullptr"
                                       : fmt::format("{} + warp * {}", place, shape_.weight_bytes / shape_.warps));
  }

  /// Where a stage of what is walked begins.
  [[nodiscard]] std::string tile_text(const TileNest& nest, std::size_t walked, kernel::Index stage) const {
    return fmt::format("walked_tiles{} + {} * {}Tile::bytes", walked, text_of(nest, stage), walked_[walked].name);
  }
  [[nodiscard]] std::size_t walked_of(const pipeline::TileAccess& access) const {
    return static_cast<std::size_t>(access.buffer) - walked_.size();  // behind those of device memory
  }

  void print_copy(const TileNest& nest, const TileStatement& s) {
    const std::size_t w = walked_of(s.to);
    print_tile_copy(w, tile_text(nest, w, s.to.stage), text_of(nest, s.to.tile));
  }
  void print_tile_copy(std::size_t w, const std::string& place, const std::string& tile) {
    const std::string first = fmt::format("first_column + ({}) * {}", tile, s_.block_columns);
    out_.line("copy_tile<{}Tile, {}>({}, walked{}, {}, {});", walked_[w].name, shape_.threads, place, w,
              walked_[w].of_score ? first : "0", walked_[w].of_score ? "0" : first);
  }

  void print_compute(const TileNest& nest, const TileStatement& s) {
    std::string scores;
    const auto tile = [&](std::size_t w) { return tile_text(nest, w, s.reads[w].stage); };
    out_.open();
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      out_.line("Scores{0} scores{0};", i);
      out_.line("multiply_tiles<{}>(scores{}, row_tile{}, {}, warp_row);",
                kernel::shape_of(c_.scores[i], shape_.scores[i]).depth_steps, i, i, tile(i));
      scores += fmt::format(", scores{}", i);
    }
    out_.line("weigh_scores<Rows, Columns, {}>(weigh, of_rows, batch, block_row + warp_row, first_column + {} * {}{});",
              c_.products.size(), text_of(nest, s.reads[0].tile), s_.block_columns, scores);
    for_each_product([&](std::size_t r, std::size_t w) {
      out_.line("Weights{0}::template multiply<{1}>(scores{0}, product{0}, weights, {2});", r,
                kernel::shape_of(c_.products[r], shape_.products[r]).depth_steps, tile(w));
    });
    out_.close();
  }

  // ---- by wgmma: of the stages one is multiplied while the others are on their way ---------------------------------

  void print_copies(const std::string& tile) {
    out_.open("if ({} < end)", tile);
    for (std::size_t w = 0; w < walked_.size(); ++w) print_tile_copy(w, place_of(w, tile), tile);
    out_.close();
    out_.line("commit_copies();");
  }
  [[nodiscard]] std::string place_of(std::size_t walked, const std::string& tile) const {
    return fmt::format("walked_tiles{} + ({}) % {} * {}Tile::bytes", walked, tile, s_.stages, walked_[walked].name);
  }
  /// Calls `print` with each product's number and with what it multiplies its weights by.
  template <class Print>
  void for_each_product(const Print& print) const {
    std::size_t own = c_.scores.size();  // of operands that are a product's alone
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      const int score = c_.shared_operand(r);
      print(r, score >= 0 ? static_cast<std::size_t>(score) : own++);
    }
  }

  void print_warpgroup_turns() {
    std::string scores;
    for (std::size_t i = 0; i < c_.scores.size(); ++i) {
      out_.line("Scores{0} scores{0};", i);
      scores += fmt::format(", scores{}", i);
    }
    // Zeros that the compiler knows it moves from one sum to the others, also once that is being added to.
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      out_.line("Weights{0} weights{0};", r);
      out_.line("settle_results(product{});", r);
    }
    // Loops whose turns it knows it unrolls, whatever it is told.
    out_.line("int end = {};", walks_some() ? "turns" : std::to_string(shape_.column_tiles));
    out_.line("settle(end);");
    for (int tile = 0; tile + 1 < s_.stages; ++tile) print_copies(std::to_string(tile));
    out_.line("#pragma unroll 1");
    out_.open("for (int j = 0; j < end; ++j)");
    out_.line("wait_for_groups<{}>();", s_.stages - 2);
    out_.line("share_with_wgmma();");
    out_.line("__syncthreads();");
    for (std::size_t i = 0; i < c_.scores.size(); ++i)
      out_.line("scores{0}.begin(row_tile{0}, {1}, group_row);", i, place_of(i, "j"));
    print_copies(fmt::format("j + {}", s_.stages - 1));
    out_.line("wait_for_products<0>();");
    for (std::size_t i = 0; i < c_.scores.size(); ++i) out_.line("settle_results(scores{});", i);
    out_.line("weigh_scores<Rows, Columns, {}>(weigh, of_rows, batch, block_row + warp_row, first_column + j * {}{});",
              c_.products.size(), s_.block_columns, scores);
    for (std::size_t r = 0; r < c_.products.size(); ++r) out_.line("weights{0}.take(scores{0});", r);
    for_each_product(
        [&](std::size_t r, std::size_t w) { out_.line("product{0}.begin(weights{0}, {1});", r, place_of(w, "j")); });
    out_.line("wait_for_products<0>();");
    for (std::size_t r = 0; r < c_.products.size(); ++r) out_.line("settle_results(product{});", r);
    out_.close();
  }

  void print_end() {
    out_.blank();
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      out_.open();
      print_results(out_, c_.products[r], shape_.products[r], {&epilogues_[r], 1}, fmt::format("product{}", r), "0", r);
      out_.close();
    }
  }

  const ProductChain& c_;
  const ChainSchedule& s_;
  const GenerateOptions& options_;
  const ChainShape shape_;
  const kernel::KeyWalk walk_;
  const std::vector<Walked> walked_;
  WeightFunction weights_;
  std::optional<ShownKeys> shown_;  ///< of the chain's mask
  bool shows_rows_ = false;         ///< keys are the rows
  std::vector<ContractionEpilogues> epilogues_;
  Writer out_;
  GeneratedKernel kernel_;
  ArgumentList arguments_{kernel_};
};

}  // namespace

Result<TileNest> chain_nest(const ProductChain& chain, const ChainSchedule& schedule) {
  const ChainShape shape = kernel::shape_of(chain, schedule);
  const std::vector<Walked> walked = walked_by(chain, shape);
  const int count = static_cast<int>(walked.size());
  TileNest nest;
  for (const Walked& each : walked) nest.add_buffer(each.name, pipeline::Scope::device);
  for (const Walked& each : walked) nest.add_buffer(each.name + "Tile", pipeline::Scope::shared);
  const int tiles = nest.add_loop("j", shape.column_tiles);
  const kernel::Index j = nest.loops[tiles].variable, zero = nest.pool.constant(0);
  TileStatement compute;
  compute.kind = TileStatement::Kind::compute;
  compute.name = "weigh";
  std::vector<TileStatement> body;
  for (int w = 0; w < count; ++w) {
    compute.reads.push_back({count + w, j, zero});
    body.push_back(pipeline::tile_copy({count + w, j, zero}, {w, j, zero}));
  }
  body.push_back(std::move(compute));
  nest.body = {pipeline::tile_loop(tiles, std::move(body))};
  std::vector<int> stages(walked.size(), 1);
  stages.insert(stages.end(), walked.size(), schedule.stages);
  return pipeline::pipelined(std::move(nest), stages);
}

Result<GeneratedKernel> generate_chain(const ProductChain& chain, const ChainSchedule& schedule,
                                       const GenerateOptions& options) {
  return ChainPrinter(chain, schedule, options).print();
}

}  // namespace stitch::codegen
