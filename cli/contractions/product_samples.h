#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "cli/contractions/problem_file.h"
#include "costmodel/training.h"

// Products that a runner has measured (measured_products.h), as training samples of cost models.
namespace stitch::cli {

/// A measured, or failed, schedule of a problem besides what training asks for; by the set's samples.
struct ProductSample {
  std::string name, call;  ///< of the problem, and of the measurement: the folder that the file is in
  std::string schedule;    ///< its hash
  double noise = 0;        ///< of the measured time, as a share
  bool spills = false;     ///< by the compiler
};

struct ProductSamples {
  costmodel::TrainingSet set;  ///< times of different calls are told apart as those of different devices
  std::vector<ProductSample> about;
};

/// The lines of these files whose schedules are there today; rows are counted anew. Errors: io, parse, those of
/// canonicalisation.
Result<ProductSamples> product_samples(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                                       const std::vector<std::filesystem::path>& measured);

/// What every scorer says of the samples, in the form of `stitch cost-model rank`: {"kernels": [{"name", "call",
/// "kind", "candidates": […]}]}. Trained ones have seen every fold but that of the problem that they are asked about;
/// "combined, both kinds" has also seen the samples of `others`, memory-intensive kernels, whose own predictions by it
/// are under "others". Errors: those of training.
Result<nlohmann::json> scored_products(const ProductSamples& samples, const costmodel::TrainingSet& others,
                                       const costmodel::TrainingOptions& training);

}  // namespace stitch::cli
