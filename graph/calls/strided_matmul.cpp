#include "graph/calls/strided_matmul.h"

#include <algorithm>
#include <array>

#include "graph/calls/call_epilogue.h"
#include "graph/calls/index_steps.h"
#include "graph/dot_dimensions.h"
#include "graph/f32_products.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

/// The root's index space: batch, then rows, then columns, each a list of dimensions of operands and root.
struct Space {
  enum Part : std::uint8_t { batch, row, column };
  struct Dimension {
    Part part;
    std::int64_t extent;
    std::int64_t left = -1, right = -1;  ///< dimension of an operand; -1: it has none
    std::int64_t root = -1;              ///< dimension of what the root makes
  };
  std::vector<Dimension> dimensions;                              ///< outermost first
  std::vector<std::pair<std::int64_t, std::int64_t>> contracted;  ///< dimensions of left and right
};

Space space_of_dot(const Graph& call, const Node& root) {
  const auto& how = root.as<DotAttributes>();
  const Dims& left = call.type(root.operands[0]).dims;
  const Dims& right = call.type(root.operands[1]).dims;
  Space space;
  std::int64_t at = 0;
  for (std::size_t b = 0; b < how.lhs_batch.size(); ++b)
    space.dimensions.push_back({Space::batch, left[how.lhs_batch[b]], how.lhs_batch[b], how.rhs_batch[b], at++});
  for (const std::int64_t d : free_dimensions(left.size(), how.lhs_batch, how.lhs_contracting))
    space.dimensions.push_back({Space::row, left[d], d, -1, at++});
  for (const std::int64_t d : free_dimensions(right.size(), how.rhs_batch, how.rhs_contracting))
    space.dimensions.push_back({Space::column, right[d], -1, d, at++});
  for (std::size_t c = 0; c < how.lhs_contracting.size(); ++c)
    space.contracted.emplace_back(how.lhs_contracting[c], how.rhs_contracting[c]);
  return space;
}

/// A convolution whose window is one element is a product of features.
Result<Space> space_of_convolution(const Graph& call, const Node& root) {
  const auto& how = root.as<ConvolutionAttributes>();
  const Dims& kernel = call.type(root.operands[1]).dims;
  const Dims& out = root.type().dims;
  const auto all = [](const Dims& values, std::int64_t wanted) {
    return std::ranges::all_of(values, [&](std::int64_t value) { return value == wanted; });
  };
  const bool no_window = std::ranges::all_of(how.kernel_spatial, [&](std::int64_t d) { return kernel[d] == 1; });
  if (!no_window || !all(how.strides, 1) || !all(how.low, 0) || !all(how.high, 0) || !all(how.input_dilation, 1) ||
      how.feature_groups != 1 || how.batch_groups != 1)
    return make_error(ErrorKind::unsupported, "a convolution with a window is no matrix product");
  Space space;
  space.dimensions.push_back({Space::row, out[how.output_batch], how.input_batch, -1, how.output_batch});
  for (std::size_t s = 0; s < how.input_spatial.size(); ++s)
    space.dimensions.push_back(
        {Space::row, out[how.output_spatial[s]], how.input_spatial[s], -1, how.output_spatial[s]});
  space.dimensions.push_back(
      {Space::column, out[how.output_feature], -1, how.kernel_output_feature, how.output_feature});
  space.contracted = {{how.input_feature, how.kernel_input_feature}};
  return space;
}

class MatmulDescription {
 public:
  explicit MatmulDescription(const Graph& call) : call_(call) {}

  Result<StridedMatmul> describe() {
    STITCH_TRY(find_root());
    if (call_.node(root_).type().elements() == 0) {
      out_.rows = 0;
      return out_;
    }
    STITCH_TRY(find_operands());
    STITCH_TRY(set_depth());
    STITCH_TRY(take_epilogue());
    STITCH_TRY(set_loops());
    return out_;
  }

 private:
  /// What steps over the space: the order of SpaceStep::strides.
  enum Tensor : std::uint8_t { left, right, result, addend, bias };

  Status find_root() {
    STITCH_ASSIGN(root_, root_of_call(call_));
    const Node& root = call_.node(root_);
    if (root.op == Op::dot) {
      space_ = space_of_dot(call_, root);
    } else {
      STITCH_ASSIGN(space_, space_of_convolution(call_, root));
    }
    out_.accumulation = root.type().dtype == DType::f64 ? DType::f64 : DType::f32;
    out_.tf32 = call_.constraints.tf32 && is_f32_product(call_, root);
    return {};
  }

  /// Which parameter a view shows.
  Result<StridedMatmul::Matrix> matrix_of(const StridedView& view) const {
    StridedMatmul::Matrix matrix;
    STITCH_ASSIGN(matrix.parameter, parameter_of(call_, view));
    matrix.dtype = call_.type(view.source).dtype;
    matrix.offset = view.offset;
    return matrix;
  }

  Status find_operands() {
    const Node& root = call_.node(root_);
    const StridedView a = view_of(call_, root.operands[0]), b = view_of(call_, root.operands[1]);
    STITCH_ASSIGN(out_.left, matrix_of(a));
    STITCH_ASSIGN(out_.right, matrix_of(b));
    walks_.assign(3, {});
    for (const Space::Dimension& each : space_.dimensions) {
      append_digits(walks_[left], each.left >= 0 ? a.dims[each.left] : Digits{{each.extent, 0}});
      append_digits(walks_[right], each.right >= 0 ? b.dims[each.right] : Digits{{each.extent, 0}});
    }
    for (const auto& [of_left, of_right] : space_.contracted) {
      append_digits(depth_walks_[0], a.dims[of_left]);
      append_digits(depth_walks_[1], b.dims[of_right]);
    }
    return {};
  }

  /// What the root makes, as digits of the space.
  [[nodiscard]] StridedView view_of_root() const {
    StridedView view{{root_, 0}, 0, std::vector<Digits>(call_.node(root_).type().dims.size())};
    std::int64_t stride = 1;
    for (std::size_t d = space_.dimensions.size(); d-- > 0;) {
      const Space::Dimension& each = space_.dimensions[d];
      view.dims[each.root] = {{each.extent, stride}};
      stride *= each.extent;
    }
    return view;
  }

  Status take_epilogue() {
    STITCH_ASSIGN(CallEpilogue epilogue, read_epilogue(call_, root_, view_of_root()));
    STITCH_TRY(check_call_types(out_.left.dtype, out_.right.dtype, out_.accumulation, epilogue, "a product"));
    out_.scale = epilogue.scale;
    out_.relu = epilogue.relu;
    out_.result.dtype = epilogue.result.dtype;
    walks_[result] = std::move(epilogue.result.walk);
    const auto add = [&](std::optional<CallEpilogue::Tensor>& tensor, std::optional<StridedMatmul::Matrix>& to,
                         Tensor of) {
      if (!tensor) return;
      to = StridedMatmul::Matrix{tensor->parameter, tensor->dtype, tensor->offset, 0, 0, {}};
      added_.emplace_back(of, walks_.size());
      walks_.push_back(std::move(tensor->walk));
    };
    add(epilogue.addend, out_.addend, addend);
    add(epilogue.bias, out_.bias, bias);
    return {};
  }

  Status set_depth() {
    for (const auto& [of_left, of_right] : space_.contracted)
      out_.depth *= call_.type(call_.node(root_).operands[0]).dims[of_left];
    if (out_.depth == 0) return make_error(ErrorKind::unsupported, "a sum of nothing");
    const auto steps = common_steps({depth_walks_[0], depth_walks_[1]});
    const auto joined = steps ? collapsed_steps(*steps) : std::vector<SpaceStep>(2);
    if (joined.size() > 1) return make_error(ErrorKind::unsupported, "the contracted dimensions step unevenly");
    out_.left.column_stride = joined.empty() ? 0 : joined[0].strides[0];
    out_.right.row_stride = joined.empty() ? 0 : joined[0].strides[1];
    return {};
  }

  StridedMatmul::Matrix& matrix(std::size_t walk) {
    switch (walk) {
      case left: return out_.left;
      case right: return out_.right;
      case result: return out_.result;
      default: break;
    }
    const auto found = std::ranges::find(added_, walk, &std::pair<Tensor, std::size_t>::second);
    return found->first == bias ? *out_.bias : *out_.addend;
  }

  /// Splits the space into rows, columns and what is left.
  Status set_loops() {
    Digits parts;
    for (const Space::Dimension& each : space_.dimensions) parts.push_back({each.extent, 0});
    std::vector<Digits> walks = walks_;
    walks.push_back(std::move(parts));
    // Steps of the whole space are cut where its dimensions meet.
    auto steps = common_steps(std::move(walks));
    if (!steps) return make_error(ErrorKind::unsupported, "layouts that no strides describe");
    std::array<std::vector<SpaceStep>, 3> by_part;
    std::size_t dimension = 0;
    std::int64_t left_over = 1;
    for (SpaceStep& step : *steps) {
      while (left_over == 1) left_over = space_.dimensions[dimension++].extent;
      left_over /= step.extent;
      step.strides.pop_back();
      by_part[space_.dimensions[dimension - 1].part].push_back(std::move(step));
    }
    for (auto& part : by_part) part = collapsed_steps(part);
    return choose(by_part);
  }

  /// The largest digits of rows and columns that a BLAS takes as the two directions of its matrices; a loop for every
  /// other one.
  Status choose(const std::array<std::vector<SpaceStep>, 3>& by_part) {
    const SpaceStep none{1, std::vector<std::int64_t>(walks_.size(), 0)};
    const auto candidates = [&](Space::Part part) {
      return by_part[part].empty() ? std::vector<SpaceStep>{none} : by_part[part];
    };
    const std::vector<SpaceStep> rows = candidates(Space::row), columns = candidates(Space::column);
    std::pair<std::size_t, std::size_t> best;
    std::int64_t largest = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        set_directions(rows[r], columns[c]);
        const std::int64_t size = rows[r].extent * columns[c].extent;
        if (size <= largest || !has_unit_strides()) continue;
        largest = size;
        best = {r, c};
      }
    }
    if (largest == 0)
      return make_error(ErrorKind::unsupported, "matrices that step by more than one element in both directions");
    set_directions(rows[best.first], columns[best.second]);
    add_loops(by_part[Space::batch], by_part[Space::batch].size());
    add_loops(by_part[Space::row], best.first);
    add_loops(by_part[Space::column], best.second);
    if (out_.calls() > StridedMatmul::most_calls)
      return make_error(ErrorKind::unsupported, "{} products with strides of their own", out_.calls());
    return {};
  }

  void set_directions(const SpaceStep& row, const SpaceStep& column) {
    out_.rows = row.extent;
    out_.columns = column.extent;
    for (std::size_t w = 0; w < walks_.size(); ++w) {
      if (w != right) matrix(w).row_stride = row.strides[w];
      if (w != left) matrix(w).column_stride = column.strides[w];
    }
  }

  [[nodiscard]] bool has_unit_strides() const {
    const bool by_rows = out_.result.column_stride == 1 || out_.columns == 1;
    const bool by_columns = out_.result.row_stride == 1 || out_.rows == 1;
    const bool adds_by_rows = !out_.addend || out_.addend->column_stride == 1 || out_.columns == 1;
    const bool adds_by_columns = !out_.addend || out_.addend->row_stride == 1 || out_.rows == 1;
    // A bias is added along the columns of a result by rows, and nowhere else (CUBLASLT_EPILOGUE_BIAS).
    const bool has_bias =
        !out_.bias || (by_rows && adds_by_rows && (out_.bias->column_stride == 1 || out_.columns == 1) &&
                       (out_.bias->row_stride == 0 || out_.rows == 1));
    return is_matrix(out_.left, out_.rows, out_.depth) && is_matrix(out_.right, out_.depth, out_.columns) && has_bias &&
           ((by_rows && adds_by_rows) || (by_columns && adds_by_columns));
  }
  /// Whether one direction is contiguous, and the other one's lines do not overlap.
  static bool is_matrix(const StridedMatmul::Matrix& of, std::int64_t rows, std::int64_t columns) {
    const bool by_rows = (of.column_stride == 1 || columns == 1) && (of.row_stride >= columns || rows == 1);
    const bool by_columns = (of.row_stride == 1 || rows == 1) && (of.column_stride >= rows || columns == 1);
    return by_rows || by_columns;
  }

  void add_loops(const std::vector<SpaceStep>& steps, std::size_t but) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (s == but) continue;
      out_.loops.push_back(steps[s].extent);
      for (std::size_t w = 0; w < walks_.size(); ++w) matrix(w).loop_strides.push_back(steps[s].strides[w]);
    }
  }

  const Graph& call_;
  NodeId root_ = -1;
  Space space_;
  std::vector<Digits> walks_;  ///< of left, right, result, and of what is added
  std::array<Digits, 2> depth_walks_;
  std::vector<std::pair<Tensor, std::size_t>> added_;  ///< what the walks behind the third are of
  StridedMatmul out_;
};

}  // namespace

std::int64_t StridedMatmul::products() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : loops) count *= extent;
  return count;
}

std::int64_t StridedMatmul::calls() const { return loops.empty() ? 1 : products() / std::ranges::max(loops); }

Result<StridedMatmul> describe_matmul(const Graph& call) { return MatmulDescription(call).describe(); }

}  // namespace stitch::graph
