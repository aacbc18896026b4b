#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/device_spec.h"
#include "codegen/compile/compiler.h"
#include "costmodel/trained_model.h"
#include "profiler/verify/verify.h"
#include "search/partition/fusion_explorer.h"
#include "search/schedule/stitch_explorer.h"
#include "tuning/kernels/kernel_search.h"

namespace stitch::tuning {

/// Who multiplies matrices in a program.
enum class ProductsBy : std::uint8_t {
  library,  ///< the caller's library (cuBLASLt, OpenBLAS), always
  faster,   ///< a kernel of ours where it is predicted to be faster by more than the prediction may be off
  ours,     ///< a kernel of ours wherever there is one
  /// As a stream of a GPU takes them: `faster`, and a kernel of ours, too, where cuBLASLt has no call
  /// (graph/calls/strided_matmul.h: windows, integers, unlike types).
  stream,
};
/// What predictions say of a product.
enum class ProductChoice : std::uint8_t {
  library,   ///< the library's call
  contends,  ///< the library's, but a kernel of ours may be as fast: which one is, measurements tell
  ours,      ///< a kernel of ours
};
/// As people and requests call them.
inline constexpr std::array<std::pair<std::string_view, ProductsBy>, 4> products_words = {
    {{"library", ProductsBy::library},
     {"faster", ProductsBy::faster},
     {"ours", ProductsBy::ours},
     {"stream", ProductsBy::stream}}};
inline std::optional<ProductsBy> products_of(std::string_view word) {
  for (const auto& [name, by] : products_words) {
    if (name == word) return by;
  }
  return std::nullopt;
}

struct TunerOptions {
  std::string target = "h100";            ///< class that is planned for (base/device_class.h)
  std::optional<DeviceSpec> device;       ///< instead of the entry: what planning_device found out
  std::string architecture;               ///< compiled for; empty: the target's
  std::filesystem::path artifact_folder;  ///< compiled kernels are kept here; empty: not kept
  search::FusionOptions fusion;
  search::StitchOptions stitch;
  profiler::VerifyOptions verify;
  ProductsBy products = ProductsBy::library;
  bool compiles = true;         ///< false: explores only, and needs no NVRTC
  int measured_candidates = 6;  ///< of each kernel, where there is a timer
  int compiled_candidates = 0;  ///< of each kernel before any is verified; 0: as WorkshopOptions says
  KernelSearchOptions search;   ///< of kernels, beyond those; its seed is that of verification
  int threads = 0;              ///< 0: one per hardware thread
  /// Told what does not keep plans from being made, for a log: that compilers cannot be confined here, and every
  /// candidate that hung, faulted or was wrong, a line each (tuning/plans/fault_log.h). May be empty.
  std::function<void(std::string_view)> complain = {};
  /// What compiles, made around the compiler that would: for tests that break it. May be empty.
  std::function<std::unique_ptr<codegen::Compiler>(codegen::Compiler&)> around_compiler = {};
  /// Predicts times with this combined cost model; null: with the analytical one.
  std::shared_ptr<const costmodel::TrainedCostModel> cost_model;
};

}  // namespace stitch::tuning
