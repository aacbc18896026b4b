#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/generated_kernel.h"
#include "codegen/writer.h"
#include "kernel/attention/paged_operand.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/contraction/contraction_schedule.h"
#include "kernel/contraction/strips.h"
#include "kernel/pipeline/nest.h"

// What the kernels of products print alike: where operands and results lie, which cores multiply, pipelined loops.
namespace stitch::codegen {

/// Where element `variable` of a joined dimension lies, beyond the first one, in elements; empty: there. `strides`: how
/// those are spelled that have a name there.
std::string offset_of(const kernel::ContractionDigits& digits, std::string_view variable,
                      std::span<const std::string> strides = {});

/// A computed value as it is stored.
std::string stored_text(graph::DType dtype, std::string_view value);

/// The one of these texts that is of the tile's `chosen`: "member == 0 ? in1 : in2", or what all of them say.
std::string of_member(std::span<const std::string> texts, std::string_view chosen = "member");
/// Which of several a number is of, by the first of each, none of them before the first: "(tile >= 4 ? 1 : 0)".
std::string number_within(std::string_view number, std::span<const std::int64_t> first);

/// The first lines of a kernel's source: what it computes and how it runs, the device headers that it needs.
void print_head(Writer& out, const GenerateOptions& options, std::string_view problem, std::string_view schedule,
                std::string_view header, std::string_view another = {}, std::string_view third = {},
                std::string_view fourth = {});

/// A kernel's arguments, and how its parameters are declared.
class ArgumentList {
 public:
  explicit ArgumentList(GeneratedKernel& kernel) : kernel_(kernel) {}

  /// Those of the graph's parameters that are read, by number, and its results.
  void add_tensors(const graph::Graph& graph, const std::set<int>& read,
                   std::span<const kernel::InPlace> in_place = {});
  void add(const kernel::Buffer& buffer, std::string_view declaration);
  /// "const bf16* __restrict__ in0, …".
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The wait for the launch before, with all that is read: "await_predecessor(in0, in1);". Results are stored behind
  /// it because what they are made of is read behind it. They are left out, since NVVM does not know how the pointer is
  /// aligned that a wait returns, and stores through it element by element; but where results are `made_of_nothing`
  /// they are told, too.
  [[nodiscard]] std::string wait(bool made_of_nothing) const;

 private:
  GeneratedKernel& kernel_;
  std::string text_, read_, written_;
};

/// How an operand's tile lies in shared memory.
struct TileText {
  int rows = 0, depth = 0;
  int copy = 4;  ///< bytes of one copy
  bool swizzle = true;
  bool warpgroup = false;                        ///< where it is read by wgmma or tcgen05
  bool whole_rows = false, whole_depth = false;  ///< whether no tile reaches beyond the operand
};
/// An operand's pages, by a table of this type.
struct PagesText {
  kernel::PagedOperand pages;
  graph::DType table = graph::DType::s32;
};
/// The structure `name`, which finds an operand's elements, and `nameTile`. Of one that lies in pages it has their
/// table, and where the batch begins in all that this has.
void print_operand(Writer& out, std::string_view name, const kernel::ContractionOperand& operand, std::int64_t rows,
                   std::int64_t depth, const TileText& tile, const PagesText* pages = nullptr);
/// What makes one: "{in1 + Key::of_batch(batch)}", of pages "{in1, in3, Key::of_batch(batch)}".
std::string operand_members(std::string_view name, const kernel::ContractionOperand& operand,
                            const PagesText* pages = nullptr);
/// The latter alone.
void print_tile_type(Writer& out, std::string_view name, const kernel::ContractionOperand& operand,
                     const TileText& tile);

/// The type of what multiplies the tiles `left` and `right`: "TensorCores<MmaF16, LeftTile, …>". `left_run`: rows that
/// a lane of CUDA cores has side by side; `right_run`: columns, at most core_run's, which it is if nothing is said.
std::string cores_of(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                     std::string_view left, std::string_view right, int left_run, std::optional<int> right_run = {});

/// Which tile of all is number `number`, whose operands' names the kernel has: `batch`, `block_row`, `block_column`.
/// `group` rows of clusters are walked column by column, so that blocks which run together share operands in L2. Of
/// several products `member` is the one whose column that is.
void print_tile_place(Writer& out, const kernel::ContractionProblem& problem,
                      const kernel::ContractionSchedule& schedule, std::string_view number);

/// Asks for tile number `tile` of the left or right operand, `depth` deep, which goes to `place`. `of_terms`: by the
/// function that knows whose of a sum's terms it is (summed_text.h).
void print_tile_copy(Writer& out, bool left, int threads, std::string_view place, std::string_view tile, int depth,
                     bool of_terms = false);

/// A nest's guard, tile or stage in terms of its loops' variables.
std::string text_of(const kernel::pipeline::TileNest& nest, kernel::Index index);
/// Prints one of a nest's statements.
using StatementPrinter = std::function<void(const kernel::pipeline::TileStatement&)>;
/// Prints a pipelined nest: loops, guards and waits; copies and computes by the functions. `turns`: how often the
/// outermost loop turns, where that is known at run time and may be less than its extent.
void print_nest(Writer& out, const kernel::pipeline::TileNest& nest, const StatementPrinter& copy,
                const StatementPrinter& compute, std::string_view turns = {});

/// The name of the structure that is the epilogue of part number `part`: "Epilogue", of several products "Epilogue1".
std::string epilogue_name(const kernel::ContractionProblem& problem, std::size_t part);
/// And that of what computes a part's result number `result`: "epilogue", of several results "epilogue1".
std::string epilogue_of(const kernel::ContractionProblem& part, std::size_t result);
/// Results that have one element for each row, by the block that has the row's first columns; `threads` take part.
void print_row_results(Writer& out, const kernel::ContractionProblem& part, const ContractionEpilogues& epilogues,
                       int block_rows, int threads);

}  // namespace stitch::codegen
