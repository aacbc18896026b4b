#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/compile/nvrtc.h"
#include "lab/breadth/breadth.h"
#include "lab/products/product_case.h"

// Random kernels of the matmul class on the emulated device against the float64 reference, each for every generation of
// instructions. Case number n of seed s is the same everywhere:
//
//     const ProductCase drawn = product_case(s, n);      // a product, a GPU, and a seed for schedule and inputs
//     const CaseVerdict verdict = check_products(nvrtc, {&drawn, 1}).front();
//
// `stitch conformance random --products` runs any number of them, tests/lab some in every test run.
namespace stitch::lab {

/// Neighbouring cases (cases_per_device of them) are for one GPU, the next as many the same products for the next one:
/// numbers up to 3·cases_per_device·k are the first cases_per_device·k products on each.
ProductCase product_case(std::uint64_t seed, std::int64_t number);

/// Cases of one GPU; their kernels are compiled together. One schedule in three is the best by the analytical model
/// ("chosen"), the others are drawn among all legal ones, each way to multiply as often as any other. Each runs on two
/// distributions of inputs, in red zones.
///
/// `features` of a verdict, each with the architecture in front ("sm_80 …"): kind and operands' type, neighbours, what
/// multiplies, stages, splits and clusters; and of chosen kernels of plain products whether their loop has conflicts in
/// shared memory ("loop without conflicts of f16", "loop with conflicts of f16"): whether four turns more have more of
/// them. `refused` are products that no kernel of ours computes.
std::vector<CaseVerdict> check_products(const codegen::Nvrtc& nvrtc, std::span<const ProductCase> cases);

/// Cases [from, from + count) of a seed.
BreadthReport check_product_range(const codegen::Nvrtc& nvrtc, std::uint64_t seed, std::int64_t from,
                                  std::int64_t count);

}  // namespace stitch::lab
