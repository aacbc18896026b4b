#include "codegen/contraction/row_text.h"

#include <functional>

#include "codegen/contraction/contraction_text.h"
#include "codegen/spelling.h"
#include "graph/reduce_kind.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/row_reductions.h"
#include "kernel/contraction/strips.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::RowReduction;

class RowPrinter {
 public:
  RowPrinter(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
             const ContractionEpilogues& epilogues)
      : out_(out),
        problem_(problem),
        s_(schedule),
        epilogues_(epilogues),
        shape_(kernel::shape_of(problem, schedule)),
        across_(s_.block_columns / s_.warp_columns),
        threads_(32 * shape_.warps),
        reductions_(static_cast<int>(problem.row_reductions.size())) {}

  void print() {
    out_.blank();
    if (!s_.tensor_copies) out_.line("wait_for_groups<0>();");
    out_.line("f32* const parts = reinterpret_cast<f32*>(shared + {});", shape_.rows_at);
    const int turns = s_.tensor_copies ? 2 : 1, shares = s_.row_blocks > 1 ? s_.row_blocks : 0;
    if (shares > 0) {
      const std::string turn = turns > 1 ? fmt::format(" + turn % 2 * {}", reductions_ * s_.block_rows * shares) : "";
      out_.line("f32* const shares = parts + {}{};", reductions_ * s_.block_rows * across_, turn);
    }
    out_.line("f32* const totals = parts + {};", reductions_ * s_.block_rows * (across_ + turns * shares));
    if (epilogues_.carried) print_carried(*epilogues_.carried);
    for (int level = 0; level < kernel::row_levels(problem_.row_reductions); ++level) print_level(level);
    print_row_results(out_, problem_, epilogues_, s_.block_rows, threads_);
    if (s_.tensor_copies && shares > 0) out_.line("++turn;");
  }

 private:
  /// Whether a column that the block has is one of the product's; empty: all are.
  [[nodiscard]] std::string is_there() const {
    if (problem_.columns % s_.block_columns == 0) return {};
    return fmt::format("block_column + column < {}", problem_.columns);
  }
  /// A row of the product, behind whose last one a block computes that again, for nobody: it asks no element whether it
  /// is there, and loads what is of the row once.
  [[nodiscard]] std::string row_text() const {
    if (problem_.rows % s_.block_rows == 0) return "block_row + row";
    return fmt::format("minimum(block_row + row, {})", problem_.rows - 1);
  }
  void close_function() {
    out_.set_depth(out_.depth() - 1);
    out_.line("}});");
  }

  /// Neighbours that a lane has in a row, where all of them are the product's or none is.
  [[nodiscard]] int neighbours() const {
    const int run = s_.instruction == kernel::ContractionInstruction::cuda_core
                        ? kernel::core_run(problem_.right, s_.thread_columns)
                        : 2;
    return problem_.columns % run == 0 ? run : 1;
  }

  void print_carried(const ContractionEpilogue& carried) {
    const int run = neighbours();
    out_.line("const Carried carried{{{}}};", carried.members);
    out_.open(
        "replace_results<{0}>(cores, warp_row, warp_column, [&](int row, int first, int behind, f32 (&sums)[{0}])",
        run);
    if (const std::string there = is_there(); !there.empty()) {
      out_.line("const int column = first + behind;");
      out_.line("if (!({})) return;", there);
    }
    out_.line("carried.run(sums, batch, {}, block_column + first, sums, behind);", row_text());
    close_function();
  }

  void print_level(int level) {
    for_each_of(level, [&](int i, const std::string&) { print_parts(i, problem_.row_reductions[i]); });
    print_barrier();
    if (s_.row_blocks > 1) print_exchange(level);
    for_each_of(level, [&](int i, const std::string& combines) {
      out_.line("combine_row_parts<{}, {}, {}, {}, {}>({}, totals + {});", combines,
                s_.row_blocks > 1 ? s_.row_blocks : across_, s_.block_rows, threads_, reductions_,
                s_.row_blocks > 1 ? shares(i) : parts(i), i);
    });
    if (level == 0) print_cleared();
    print_barrier();
  }

  /// Three totals of a row may be loaded as four, the last of which nobody has written yet.
  void print_cleared() {
    constexpr int loaded_at_once = 4;
    for (int i = 0; i < reductions_ && reductions_ >= loaded_at_once; ++i) {
      if (problem_.row_reductions[i].level > 0)
        out_.line("clear_row_totals<{}, {}, {}>(totals + {});", s_.block_rows, threads_, reductions_, i);
    }
  }

  /// What each block has of its rows comes to all of them.
  void print_exchange(int level) {
    // Nobody writes to a block that has not begun.
    if (level == 0 && !s_.tensor_copies) out_.line("cluster_wait();");
    for_each_of(level, [&](int i, const std::string& combines) {
      out_.line("share_row_parts<{}, {}, {}, {}, {}>({}, {}, static_cast<int>(blockIdx.x) % {});", combines, across_,
                s_.row_blocks, s_.block_rows, threads_, parts(i), shares(i), s_.row_blocks);
    });
    if (!s_.tensor_copies) return out_.line("cluster_barrier();");
    const std::string barrier =
        fmt::format("row_barriers + (turn % 2 * {} + {})", kernel::row_levels(problem_.row_reductions), level);
    out_.line("tell_of_row_parts<{}>({});", s_.row_blocks, barrier);
    out_.line("await_row_parts({}, turn / 2 % 2);", barrier);
  }

  /// Of the warps that multiply.
  void print_barrier() {
    out_.line("{}", s_.tensor_copies ? fmt::format("barrier_of_first<{}>();", threads_) : "__syncthreads();");
  }

  /// The reductions of a level, and what they combine by.
  void for_each_of(int level, const std::function<void(int, const std::string&)>& visit) const {
    for (int i = 0; i < reductions_; ++i) {
      const RowReduction& reduction = problem_.row_reductions[i];
      if (reduction.level == level) visit(i, combiner(reduction.kind));
    }
  }

  void print_parts(int i, const RowReduction& reduction) {
    const ContractionEpilogue& combined = epilogues_.combined[i];
    const std::string identity = literal(graph::DType::f32, graph::identity_bits(reduction.kind, graph::DType::f32));
    out_.line("const Combined{0} combined{0}{{{1}}};", i, combined.members);
    out_.open(
        "leave_row_parts<{}, {}>(cores, {}, warp_row, warp_column, warp_column / {}, {}, "
        "[&](int row, int column, f32 sum)",
        combiner(reduction.kind), across_, parts(i), s_.warp_columns, identity);
    const std::string value = fmt::format("combined{}(sum, batch, {}, block_column + column)", i, row_text());
    const std::string there = is_there();
    out_.line("return {};", there.empty() ? value : fmt::format("{} ? {} : {}", there, value, identity));
    close_function();
  }

  [[nodiscard]] std::string parts(int i) const { return fmt::format("parts + {}", i * s_.block_rows * across_); }
  [[nodiscard]] std::string shares(int i) const {
    return fmt::format("shares + {}", i * s_.block_rows * s_.row_blocks);
  }

  Writer& out_;
  const ContractionProblem& problem_;
  const ContractionSchedule& s_;
  const ContractionEpilogues& epilogues_;
  const kernel::ContractionShape shape_;
  const int across_;   ///< warps beside one another
  const int threads_;  ///< that multiply
  const int reductions_;
};

}  // namespace

void print_row_begin(Writer& out, const ContractionSchedule& schedule) {
  if (schedule.row_blocks > 1) out.line("cluster_arrive();  // the block is there to be written to");
}

void print_row_barriers(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  if (schedule.row_blocks == 1) return;
  const kernel::ContractionShape shape = kernel::shape_of(problem, schedule);
  const int count = 2 * kernel::row_levels(problem.row_reductions);
  const std::int64_t at = shape.rows_at + kernel::row_bytes(problem, schedule) - std::int64_t{8} * count;
  out.line("u64* const row_barriers = reinterpret_cast<u64*>(shared + {});", at);
  out.line("begin_row_barriers<{}, {}>(row_barriers);", count, shape.warps * schedule.row_blocks);
  out.line("cluster_barrier();");
}

void print_rows(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
                const ContractionEpilogues& epilogues) {
  RowPrinter(out, problem, schedule, epilogues).print();
}

}  // namespace stitch::codegen
