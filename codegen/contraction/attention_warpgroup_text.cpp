#include "codegen/contraction/attention_warpgroup_text.h"

#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/warpgroup_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionShape;

void end_structure(Writer& out) {
  out.set_depth(0);
  out.line("}};");
}

/// Prints the loop's pieces.
class LoopPrinter {
 public:
  LoopPrinter(Writer& out, const WarpgroupLoop& loop) : out_(out), l_(loop), stages_(loop.schedule.stages) {}

  void print() {
    out_.line("Scores scores;");
    out_.line("Weights weights;");
    out_.line("f32 scale[Scores::own_rows];");
    out_.line("bool grows;");
    // Zeros that the compiler knows it moves from one sum to the others, also once that is being added to.
    out_.line("settle_results(product);");
    // Loops whose turns it knows it unrolls, whatever it is told.
    out_.line("int end = {};", l_.turns);
    out_.line("settle(end);");
    if (l_.schedule.overlaps) {
      print_overlapped();
    } else {
      print_plain();
    }
  }

 private:
  void print_plain() {
    for (int tile = 0; tile + 1 < stages_; ++tile) {
      copy(true, std::to_string(tile));
      copy(false, std::to_string(tile));
      out_.line("commit_copies();");
    }
    out_.line("#pragma unroll 1");
    out_.open("for (int j = 0; j < end; ++j)");
    wait(stages_ - 2);
    begin_scores("j");
    const std::string next = fmt::format("j + {}", stages_ - 1);
    copy(true, next);
    copy(false, next);
    out_.line("commit_copies();");
    out_.line("wait_for_products<0>();");
    make_weights("j");
    take_weights();
    begin_results("j");
    end_results();
    out_.close();
  }

  void print_overlapped() {
    copy(true, "0");
    out_.line("commit_copies();");
    for (int tile = 0; tile + 1 < stages_; ++tile) {
      copy(true, std::to_string(tile + 1));
      copy(false, std::to_string(tile));
      out_.line("commit_copies();");
    }
    if (l_.some) out_.open("if (end > 0)");
    wait(stages_ - 1);
    begin_scores("0");
    out_.line("wait_for_products<0>();");
    make_weights("0");
    out_.line("weights.take(scores);");
    out_.line("#pragma unroll 1");
    out_.open("for (int j = 0; j < end - 1; ++j)");
    wait(stages_ - 2);
    begin_scores("j + 1");
    begin_results("j");
    copy(true, fmt::format("j + {}", stages_));
    copy(false, fmt::format("j + {}", stages_ - 1));
    out_.line("commit_copies();");
    out_.line("wait_for_products<1>();");
    make_weights("j + 1");
    out_.line("finish_weights(rows);");
    end_results();
    take_weights();
    out_.close();
    wait(0);
    begin_results("end - 1");
    end_results();
    if (l_.some) out_.close();
  }

  [[nodiscard]] std::string place(bool keys, const std::string& tile) const {
    return fmt::format("{}_tiles + ({}) % {} * {}Tile::bytes", keys ? "key" : "value", tile, stages_,
                       keys ? "Key" : "Value");
  }
  void copy(bool keys, const std::string& tile) {
    out_.open("if ({} < end)", tile);
    l_.copy(keys, place(keys, tile), tile);
    out_.close();
  }
  void wait(int pending) {
    out_.line("wait_for_groups<{}>();", pending);
    out_.line("share_with_wgmma();");
    out_.line("__syncthreads();");
  }
  void begin_scores(const std::string& tile) {
    out_.line("scores.begin(query_tile, {}, group_row);", place(true, tile));
  }
  /// Of scores that were waited for.
  void make_weights(const std::string& tile) {
    out_.line("settle_results(scores);");
    out_.line("make_logits<Rows, Keys, Logits>(scores, score, {}, batch, block_row + warp_row, first_key + ({}) * {});",
              l_.seen(tile), tile, l_.schedule.block_keys);
    out_.line("grows = make_weights<Logits>(scores, rows, scale);");
    if (!l_.drops) return;
    out_.line("drop_weights<Rows, Keys>(scores, dropout, batch, block_row + warp_row, first_key + ({}) * {});", tile,
              l_.schedule.block_keys);
  }
  void take_weights() {
    out_.line("if (grows) scale_rows(product, scale);");
    out_.line("weights.take(scores);");
  }
  void begin_results(const std::string& tile) { out_.line("product.begin(weights, {});", place(false, tile)); }
  void end_results() {
    out_.line("wait_for_products<0>();");
    out_.line("settle_results(product);");
  }

  Writer& out_;
  const WarpgroupLoop& l_;
  const int stages_;
};

}  // namespace

namespace {

std::string types_of_wgmma(const kernel::ContractionProblem& problem) {
  return fmt::format("f32.{0}.{0}", to_string(problem.left.dtype));
}

}  // namespace

void print_score_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& scores, int columns) {
  const int at = columns / 2;
  out.open("struct {}", name);
  for (const bool adds : {false, true}) {
    print_wgmma_function(out, {.name = adds ? "multiply" : "begin",
                               .left = "u64 left",
                               .sum = "f32",
                               .types = types_of_wgmma(scores),
                               .columns = columns,
                               .adds = adds,
                               .operands = fmt::format("%{}, %{}, p, 1, 1, {}, {}", at, at + 1, transposed(scores.left),
                                                       transposed(scores.right)),
                               .inputs = "\"l\"(left)"});
  }
  end_structure(out);
}

void print_weighted_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& product, int columns) {
  const int at = columns / 2;
  out.open("struct {}", name);
  print_wgmma_function(out, {.name = "multiply",
                             .left = "const u32 (&left)[4]",
                             .sum = "f32",
                             .types = types_of_wgmma(product),
                             .columns = columns,
                             .operands = fmt::format("{{%{}, %{}, %{}, %{}}}, %{}, p, 1, 1, {}", at, at + 1, at + 2,
                                                     at + 3, at + 4, transposed(product.right)),
                             .inputs = "\"r\"(left[0]), \"r\"(left[1]), \"r\"(left[2]), \"r\"(left[3])"});
  end_structure(out);
}

void print_attention_wgmma(Writer& out, const AttentionProblem& problem, const AttentionShape& shape) {
  print_score_wgmma(out, "ScoreProduct", problem.scores, shape.scores.block_columns);
  print_weighted_wgmma(out, "WeightedProduct", problem.product, shape.product.block_columns);
}

void print_attention_cores(Writer& out, const AttentionProblem& problem, const AttentionShape& shape) {
  const int rows = shape.scores.warp_rows, keys = shape.scores.block_columns;
  out.line("using Scores = WarpgroupScores<ScoreProduct, QueryTile, KeyTile, {}, {}, {}>;", shape.scores.block_depth,
           rows, keys);
  out.line("using Weights = WarpgroupWeights<{}, {}, {}>;", storage_type(problem.product.left.dtype), rows, keys);
  out.line("using Weighted = WarpgroupResults<WeightedProduct, Weights, ValueTile, {}, {}>;", rows,
           shape.product.block_columns);
}

void print_warpgroup_attention(Writer& out, const WarpgroupLoop& loop) { LoopPrinter(out, loop).print(); }

}  // namespace stitch::codegen
