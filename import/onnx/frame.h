#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/builder.h"

namespace stitch::import::onnx {

/// How far a value is known while the model is read.
enum class Known : std::uint8_t {
  no,
  assumed,   ///< it depends on inputs whose values the caller gave (ImportOptions::known_inputs)
  constant,  ///< it depends on the file alone
};

/// A graph under construction — the model's or a region's — and what is known of its values.
///
/// Shape arithmetic needs no rules of its own: every operator is lowered as if its operands were unknown, and when a
/// rule needs a number (the shape of a Reshape), the primitives that lead to it are evaluated. What only served that
/// purpose is dead afterwards and is dropped with other dead code.
class Frame {
 public:
  explicit Frame(std::string name, Frame* parent = nullptr) : builder(std::move(name)), parent_(parent) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  graph::Builder builder;

  /// Tells the value of a parameter of this frame.
  void tell(graph::Value parameter, graph::ConstantAttributes value, Known known);

  [[nodiscard]] Known known(graph::Value value);

  /// The elements of a value; none when it is not known well enough (at least `least`), or when computing it would
  /// touch more than a few million elements.
  [[nodiscard]] std::optional<graph::ConstantAttributes> evaluate(graph::Value value, Known least);

  /// `value`, which belongs to `owner` (this frame or one around it), as a value of this frame: small constants are
  /// copied, anything else becomes a parameter of every frame in between.
  graph::Value import(Frame& owner, graph::Value value);

  /// Parameters that stand for values of the parent.
  struct Capture {
    graph::Value outer, inner;
  };
  [[nodiscard]] const std::vector<Capture>& captures() const { return captures_; }

 private:
  void classify();
  [[nodiscard]] Known classify(graph::NodeId id);
  [[nodiscard]] std::optional<graph::ConstantAttributes> leaf(graph::NodeId id);

  Frame* parent_;
  std::vector<Capture> captures_;
  std::map<graph::NodeId, graph::Value> captured_;  // parameter -> the parent's value
  std::map<graph::NodeId, std::pair<graph::ConstantAttributes, Known>> told_;
  std::map<graph::Value, graph::ConstantAttributes> evaluated_;
  std::vector<Known> known_;  // by node, as far as they have been looked at
};

}  // namespace stitch::import::onnx
