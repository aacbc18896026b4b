#pragma once

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "graph/canonical.h"
#include "profiler/device/emulated_device.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// The tuner that all tests share: its compiler's and explorer's memory make later tests quick.
inline Tuner& shared_tuner(profiler::Device& device) {
  static SystemClock clock;
  static RealFileSystem files;
  static auto tuner = [&] {
    TunerOptions options;
    options.verify.distributions.resize(1);
    return Tuner::create(options, device, nullptr, files, clock);
  }();
  EXPECT_TRUE(tuner.ok()) << (tuner ? "" : tuner.error().message);
  return **tuner;
}
/// A tuner of one's own, whose programs have products by these. `compiles`: else it only explores.
inline Result<std::unique_ptr<Tuner>> tuner_for(profiler::Device& device, ProductsBy by, bool compiles = true) {
  static SystemClock clock;
  static RealFileSystem files;
  TunerOptions options;
  options.products = by;
  options.compiles = compiles;
  options.verify.distributions.resize(1);
  return Tuner::create(options, device, nullptr, files, clock);
}
inline profiler::Device& shared_device() {
  static profiler::EmulatedDevice device;
  return device;
}

inline graph::Graph canonical(const graph::Graph& graph) { return graph::canonicalise(graph)->graph; }

}  // namespace stitch::tuning
