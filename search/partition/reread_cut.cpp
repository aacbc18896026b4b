#include "search/partition/reread_cut.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace stitch::search {
namespace {

using graph::Node;
using graph::Op;

/// Readings of a value, per element, from which on it is worth looking at a kernel of its own.
constexpr double many_readings = 3;

class Stages {
 public:
  explicit Stages(const VertexGraph& vertices) : vertices_(vertices), stage_(size(), 0), repeated_(size(), false) {}

  std::vector<VertexSet> parts() {
    for (int v = 0; v < vertices_.size(); ++v) repeated_[v] = readings(v) >= many_readings;
    for (int v = 0; v < vertices_.size(); ++v) {
      for (const int producer : vertices_.producers(v))
        stage_[v] = std::max(stage_[v], stage_[producer] + rise(producer, v));
    }
    if (std::ranges::max(stage_) == 0) return {};
    // What nobody needs sooner waits for its readers.
    for (int v = vertices_.size(); v-- > 0;) {
      if (vertices_.is_result(v) || vertices_.consumers(v).empty()) continue;
      int latest = vertices_.size();
      for (const int consumer : vertices_.consumers(v)) latest = std::min(latest, stage_[consumer] - rise(v, consumer));
      stage_[v] = latest;
    }
    return connected();
  }

 private:
  [[nodiscard]] std::size_t size() const { return vertices_.size(); }
  [[nodiscard]] const Node& node(int vertex) const { return vertices_.fragment().node(vertices_.node(vertex)); }

  /// Elements that an operator reads elsewhere than where its own are; 0 for all others.
  [[nodiscard]] double read_elsewhere(int vertex) const {
    const double elements = node(vertex).type().elements();
    switch (node(vertex).op) {
      case Op::slice:
      case Op::pad: return elements;
      case Op::reduce_window: {
        const auto& a = node(vertex).as<graph::ReduceWindowAttributes>();
        return elements * graph::element_count(a.sizes);
      }
      default: return 0;
    }
  }

  [[nodiscard]] double readings(int vertex) const {
    double read = 0;
    for (const int consumer : vertices_.consumers(vertex)) read += read_elsewhere(consumer);
    return read / std::max(1.0, static_cast<double>(node(vertex).type().elements()));
  }

  /// Whether a reader belongs to a later stage than the value.
  [[nodiscard]] int rise(int producer, int consumer) const {
    return repeated_[producer] && read_elsewhere(consumer) > 0 ? 1 : 0;
  }

  [[nodiscard]] std::vector<VertexSet> connected() const {
    std::vector<int> parent(size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](int v) {
      while (parent[v] != v) v = parent[v] = parent[parent[v]];
      return v;
    };
    for (int v = 0; v < vertices_.size(); ++v) {
      for (const int producer : vertices_.producers(v)) {
        if (stage_[producer] == stage_[v]) parent[root(v)] = root(producer);
      }
    }
    std::map<int, VertexSet> parts;
    for (int v = 0; v < vertices_.size(); ++v) parts.try_emplace(root(v), size()).first->second.insert(v);
    std::vector<VertexSet> list;
    for (auto& [first, part] : parts) list.push_back(std::move(part));
    return list;
  }

  const VertexGraph& vertices_;
  std::vector<int> stage_;
  std::vector<bool> repeated_;
};

}  // namespace

std::vector<VertexSet> staged_partition(const VertexGraph& vertices) { return Stages(vertices).parts(); }

}  // namespace stitch::search
