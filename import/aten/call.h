#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"

namespace stitch::import::aten {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using Values = std::vector<Value>;

/// The values that earlier nodes gave, by the names of the nodes.
using Known = std::map<std::string, Values, std::less<>>;

/// One node on its way into the graph: its arguments by the names of PyTorch's schema, and the types that PyTorch says
/// its results have. What is wrong with an argument makes the builder fail, with a text that names the argument; the
/// getter then returns something harmless, so that a rule needs no checks of its own.
class Call {
 public:
  Call(Builder& builder, const Known& known, const nlohmann::json& arguments, std::vector<graph::TensorType> results)
      : b(builder), results_(std::move(results)), known_(known), arguments_(arguments) {}

  Builder& b;

  /// The type of result i; the first one's where a document declares too few, which is an error after the rule.
  [[nodiscard]] const graph::TensorType& result(std::size_t i = 0) const {
    return results_[i < results_.size() ? i : 0];
  }
  [[nodiscard]] std::size_t result_count() const { return results_.size(); }

  [[nodiscard]] std::int64_t rank(Value value) const { return std::ssize(b.dims(value)); }

  /// Whether the argument is there and is not None.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  [[nodiscard]] bool is_tensor(std::string_view name) const;
  [[nodiscard]] bool is_integer(std::string_view name) const;

  Value tensor(std::string_view name);
  /// A list of tensors; an entry that is None has node -1.
  Values tensors(std::string_view name);
  /// A tensor, or a number as a scalar, in this element type.
  Value operand(std::string_view name, DType dtype);
  double number(std::string_view name, double otherwise);
  /// Brought to within ±2^48.
  std::int64_t integer(std::string_view name, std::int64_t otherwise);
  bool flag(std::string_view name, bool otherwise);
  std::string text(std::string_view name);
  /// A list of integers, or one integer as a list, likewise; empty when it is not there.
  Dims integers(std::string_view name);
  std::optional<DType> dtype(std::string_view name);

  /// One dimension of a tensor of this rank, negative ones counted from the end.
  std::int64_t dimension(std::string_view name, std::int64_t rank, std::int64_t otherwise = 0);
  /// Sorted dimensions of a tensor of this rank; all of them when the list is missing or empty.
  Dims dimensions(std::string_view name, std::int64_t rank);

  /// What PyTorch would compute with for these arguments: tensors come before 0-dimensional ones, these before Python's
  /// numbers, floats before integers before truth values (torch.result_type).
  DType promoted(std::initializer_list<std::string_view> names);

  /// What the first result is computed in where that rounds once: its type, f32 for a narrower float (PyTorch's
  /// opmath).
  [[nodiscard]] DType wide_dtype() const;
  /// The same where one of these is a number and not a tensor, which PyTorch's kernels for GPUs then take in f32, too;
  /// else the result's type.
  [[nodiscard]] DType arithmetic_dtype(std::initializer_list<std::string_view> names) const;

  /// Nothing here lowers this case; the text says why. Returns no values.
  Values unsupported(std::string reason);
  void wrong(std::string_view name, std::string_view expected);

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view name) const;
  Value value_of(const nlohmann::json& reference, std::string_view name);
  Value scalar(const nlohmann::json& number, std::string_view name, DType dtype);
  std::optional<double> number_of(const nlohmann::json& value) const;

  std::vector<graph::TensorType> results_;
  const Known& known_;
  const nlohmann::json& arguments_;
};

}  // namespace stitch::import::aten
