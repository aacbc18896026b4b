#include "costmodel/contraction/product_rates.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::ContractionInstruction;

kernel::ContractionProblem product(DType dtype) {
  return *kernel::derive_contraction(kernel::test::matmul(dtype, 64, 64, 64));
}

TEST(ProductRates, ANormIsNoLessThanItsLargest) {
  EXPECT_DOUBLE_EQ(norm_of({0, 3}), 3);
  EXPECT_EQ(norm_of({0, 0}), 0);
  EXPECT_NEAR(norm_of({1, 1}), 1.09, 0.01);
}

TEST(ProductRates, TensorCoresAreForTheirTypes) {
  const DeviceSpec h100 = *find_device("h100"), a100 = *find_device("a100");
  EXPECT_GT(tensor_rate(product(DType::f16), h100), 1000);
  EXPECT_EQ(tensor_rate(product(DType::f32), h100), 0);
  EXPECT_GT(core_rate(product(DType::f32), h100), 100);
  // mma.sync reaches a share of what Hopper's own instructions do, and all of an A100's.
  const auto synchronous = [](const DeviceSpec& device) {
    return multiply_rate(product(DType::bf16), ContractionInstruction::mma_m16n8k16, device) /
           tensor_rate(product(DType::bf16), device);
  };
  EXPECT_LT(synchronous(h100), 1);
  EXPECT_DOUBLE_EQ(synchronous(a100), 1);
}

/// bench/contractions/measured.csv: an L4 multiplies f32 at 12 TFLOP/s, an A100 at all but its 19.5.
TEST(ProductRates, PowerBindsTheLanesOfAdaBoards) {
  const auto reached = [](const char* name) {
    const DeviceSpec device = *find_device(name);
    const double rate = core_rate(product(DType::f32), device) * core_clock_share(product(DType::f32), device);
    return 2e-12 * rate * device.sm_count * device.clock_hz;
  };
  EXPECT_NEAR(reached("l4"), 12, 1);
  EXPECT_NEAR(reached("rtx4090"), 63, 1);
  EXPECT_GT(reached("a100"), 17);
}

/// Of tensor cores' rate an Ada board has all, at a clock that is lowered; others have a share of it at theirs.
TEST(ProductRates, WhatPowerLeavesIsAClockOrARate) {
  const auto both = [](const char* name, ContractionInstruction instruction, DType dtype) {
    const DeviceSpec device = *find_device(name);
    const double clock = clock_share(product(dtype), instruction, device),
                 rate = full_clock_rate(product(dtype), instruction, device);
    EXPECT_DOUBLE_EQ(instruction == ContractionInstruction::cuda_core ? rate : rate * clock,
                     multiply_rate(product(dtype), instruction, device));
    return clock;
  };
  EXPECT_EQ(both("l4", ContractionInstruction::mma_m16n8k16, DType::f16), find_device("l4")->tensor.sustained_share);
  EXPECT_LT(both("rtx4090", ContractionInstruction::cuda_core, DType::f32), 1);
  EXPECT_EQ(both("h100", ContractionInstruction::wgmma_m64k16, DType::f16), 1);
  EXPECT_EQ(both("a100", ContractionInstruction::cuda_core, DType::f32), 1);
}

TEST(ProductRates, TilesAreReadFasterThanTheTableSays) {
  for (const auto& [name, faster] : {std::pair("a100", false), {"l4", false}, {"h100", true}, {"b200", true}}) {
    const DeviceSpec device = *find_device(name);
    EXPECT_EQ(tile_bandwidth(device) > 1.3 * device.l2_bandwidth, faster) << name;
  }
}

TEST(ProductRates, ThreeProductsOfBf16AreTwiceThoseOfTf32) {
  const auto rate = [](graph::Constraints constraints, const char* device) {
    graph::Graph graph = kernel::test::matmul(DType::f32, 64, 64, 64);
    graph.constraints = constraints;
    return tensor_rate(*kernel::derive_contraction(graph), *find_device(device));
  };
  for (const char* device : {"a100", "h100", "rtx4090"}) {
    const double halves = tensor_rate(product(DType::bf16), *find_device(device));
    EXPECT_DOUBLE_EQ(rate({.bf16x3 = true}, device), halves / 3) << device;
    EXPECT_DOUBLE_EQ(rate({.tf32 = true}, device), halves / 2) << device;
    EXPECT_DOUBLE_EQ(rate({.tf32x3 = true}, device), halves / 6) << device;
  }
  EXPECT_EQ(rate({.bf16x3 = true}, "t4"), 0) << "its tensor cores take no bf16";
  EXPECT_EQ(split_work(ContractionInstruction::mma_m16n8k16).products, 1);
  EXPECT_EQ(split_work(ContractionInstruction::mma_m16n8k16_bf16x3).products, 3);
  EXPECT_LT(split_work(ContractionInstruction::mma_m16n8k16_bf16x3).instructions,
            split_work(ContractionInstruction::mma_m16n8k8_tf32x3).instructions);
}

TEST(ProductRates, AnEpilogueIsItsElementWiseOperators) {
  const auto plain = product(DType::f16);
  EXPECT_EQ(epilogue_operators(plain), 0);
  EXPECT_EQ(epilogue_reads(plain), 0);
  graph::Builder b;
  const graph::Value sum =
      b.dot(b.parameter(DType::f16, {64, 32}), b.parameter(DType::f16, {32, 48}), {{}, {}, {1}, {0}, DType::f32});
  const graph::Value bias = b.broadcast(b.parameter(DType::f32, {48}), {64, 48}, {1});
  const auto biased =
      *kernel::derive_contraction(*b.finish({b.unary(graph::Op::tanh, b.binary(graph::Op::add, sum, bias))}));
  EXPECT_EQ(epilogue_operators(biased), 2) << "an addition and a function, no broadcast";
  EXPECT_EQ(epilogue_reads(biased), 48 * 4);
}

TEST(ProductRates, LoadsOfALane) {
  EXPECT_EQ(core_load_cycles(4, 4), 2) << "16 bytes a lane take two wavefronts";
  EXPECT_EQ(core_load_cycles(1, 2), 1);
}

}  // namespace
}  // namespace stitch::costmodel
