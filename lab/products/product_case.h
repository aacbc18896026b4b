#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/device_spec.h"
#include "graph/graph.h"

namespace stitch::lab {

/// What a kernel of the matmul class computes, drawn at random (random_product.h).
struct RandomProduct {
  graph::Graph graph;
  std::string kind;       ///< "product", "normed product", "gates", "merged products", "convolution", "attention", …
  std::string dtype;      ///< of the operands: "f16", "f32 by TF32"
  std::string neighbour;  ///< what is fused: "bias", "residual"; empty: nothing
};

/// GPUs whose architectures differ in what multiplies and copies: sm_80, sm_89 and sm_90a.
inline constexpr std::array<std::string_view, 3> product_targets = {"a100", "l4", "h100"};

/// A product, a GPU that it is for, and how its kernel is drawn.
struct ProductCase {
  std::uint64_t problem = 0;  ///< seed of random_product
  RandomProduct product;
  DeviceSpec device;
  std::uint64_t seed = 0;  ///< of schedule and inputs
};

}  // namespace stitch::lab
