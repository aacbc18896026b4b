#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/cut.h"

namespace stitch::tuning {

/// How a model's fragments and boundaries hang together, for pictures: equal parts of one region (a model's layers) are
/// one part with a count, so that a model of any depth has as many parts as it has different ones. The outline may
/// therefore have circles: a layer reads what a layer wrote.
struct ModelOutline {
  struct Part {
    enum class Kind : unsigned char {
      fragment,
      call,   ///< a matmul or convolution, with what its library call does besides
      other,  ///< an opaque operator, a loop or a conditional
    };
    Kind kind = Kind::fragment;
    int region = 0;          ///< index into `regions`
    std::size_t entry = 0;   ///< of a fragment: its place in ModelFragments::entries
    std::string text;        ///< of a boundary: "dot f32 [1024,768]·[768,3072] + bias"
    std::int64_t sites = 0;  ///< how often it stands in its region
  };
  /// Values that one part reads of another.
  struct Flow {
    int from = 0, to = 0;     ///< indices into `parts`
    graph::TensorType type;   ///< of the first such value
    std::int64_t values = 0;  ///< how many there are, over all sites
    bool is_uniform = true;   ///< whether all have that type
    bool is_latest = false;   ///< whether for some site it is the input that is ready last: what the site waits for
  };
  std::vector<std::string> regions;  ///< paths (graph::RegionSite::path); the model itself has an empty one
  std::vector<Part> parts;           ///< in order of appearance
  std::vector<Flow> flows;           ///< by `from`, then `to`
};

/// Adds a region that was cut to the outline. `entries`: the entry of each of the cut's fragments.
void add_region(const graph::RegionSite& site, const graph::CutGraph& cut, const std::vector<std::size_t>& entries,
                ModelOutline& outline);

}  // namespace stitch::tuning
