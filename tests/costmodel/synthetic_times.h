#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "costmodel/kernel_features.h"
#include "costmodel/training.h"
#include "tests/costmodel/example_kernels.h"

/// Kernels with times that are made up, from the analytical model and a stated error of it: what a model must learn is
/// known.
namespace stitch::costmodel::test {

/// Kernels of several families, in several sizes each.
inline std::vector<NamedGraph> sized_kernels() {
  using profiler::test::channel_reduction, profiler::test::norm_backward, profiler::test::scaled_sum,
      profiler::test::softmax, profiler::test::transposed;
  std::vector<NamedGraph> kernels;
  for (const std::int64_t columns : {256, 512, 768, 1024, 2048, 4096, 8192}) {
    kernels.push_back({fmt::format("softmax {}", columns), [=] { return softmax(8192 * 256 / columns, columns); }});
    kernels.push_back({fmt::format("norm_backward {}", columns), [=] { return norm_backward(2048, columns); }});
    kernels.push_back({fmt::format("sum {}", columns), [=] { return scaled_sum({columns, 1000}); }});
    kernels.push_back({fmt::format("channels {}", columns), [=] {
                         return channel_reduction(graph::ReduceKind::sum, {64, 32, columns});
                       }});
    kernels.push_back({fmt::format("transpose {}", columns), [=] { return transposed({columns, 1024}, {1, 0}); }});
  }
  return kernels;
}

/// The truth differs from the analytical model in this: large blocks take 1.5 times as long, clusters 1.8 times,
/// narrow loads 1.6 times, and everything 1.2 times. A part in fifty is noise.
inline double synthetic_us(const KernelFeatures& f, double analytical_us, std::uint64_t noise) {
  double us = 1.2 * analytical_us;
  if (f.threads >= 512) us *= 1.5;
  if (f.cluster > 1) us *= 1.8;
  if (f.load_width < 8) us *= 1.6;
  return us * (1 + 0.02 * (static_cast<double>(mix(7, noise) % 1000) / 500 - 1));
}

/// All candidates of the kernels as measured samples; the family is the name's first word.
inline TrainingSet synthetic_set(const std::vector<NamedGraph>& kernels, int keep = 60) {
  const DeviceSpec device = *find_device("h100");
  TrainingSet set;
  set.device = device.name;
  std::uint64_t number = 0;
  for (const NamedGraph& named : kernels) {
    for (const Kernel& kernel : candidates_of(named.graph(), device, keep)) {
      const KernelFeatures features = kernel_features(*kernel.graph, kernel.program, device);
      TrainingSample sample;
      sample.features = to_row(features);
      sample.analytical_us = kernel.predicted_us;
      sample.measured = synthetic_us(features, kernel.predicted_us, ++number);
      sample.kernel = hash_bytes(named.name);
      sample.family = hash_bytes(named.name.substr(0, named.name.find(' ')));
      sample.device = "synthetic";
      set.samples.push_back(std::move(sample));
    }
  }
  return set;
}

inline const TrainingSet& all_synthetic() {
  static const TrainingSet set = synthetic_set(sized_kernels());
  return set;
}

}  // namespace stitch::costmodel::test
