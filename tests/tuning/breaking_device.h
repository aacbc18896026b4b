#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/device/device.h"
#include "tests/tuning/shared_tuner.h"

namespace stitch::tuning {

/// Everywhere: of an unrolled loop no block may come to the last.
inline bool replace_all(std::string& text, std::string_view from, std::string_view to) {
  bool any = false;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), any = true)
    text.replace(at, from.size(), to);
  return any;
}

/// Loads what `breaks` changed of the PTX, and leaves everything else to the emulated device.
class BreakingDevice final : public profiler::Device {
 public:
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return shared_device().identity(); }
  Result<std::unique_ptr<profiler::Session>> session() override {
    STITCH_ASSIGN(auto inner, shared_device().session());
    return std::unique_ptr<profiler::Session>(std::make_unique<BreakingSession>(*this, std::move(inner)));
  }

  /// Whether a kernel is made wrong; called from several threads.
  std::function<bool(const std::string& ptx)> breaks;

 private:
  class BreakingSession final : public profiler::Session {
   public:
    BreakingSession(BreakingDevice& device, std::unique_ptr<profiler::Session> inner)
        : device_(device), inner_(std::move(inner)) {}
    Result<profiler::KernelHandle> load(const profiler::KernelImage& image) override {
      if (!device_.breaks(image.ptx)) return inner_->load(image);
      profiler::KernelImage broken = image;
      EXPECT_TRUE(replace_all(broken.ptx, "ex2.approx", "lg2.approx") ||
                  replace_all(broken.ptx, "fma.rn.f32", "fma.rn.sat.f32"));
      return inner_->load(broken);
    }
    Result<profiler::BufferHandle> allocate(std::string name, std::int64_t bytes, profiler::Fill fill,
                                            profiler::Access access) override {
      return inner_->allocate(std::move(name), bytes, std::move(fill), access);
    }
    Status free(profiler::BufferHandle buffer) override { return inner_->free(buffer); }
    Status read(profiler::BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override {
      return inner_->read(buffer, offset, into);
    }
    Status write(profiler::BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override {
      return inner_->write(buffer, offset, from);
    }
    Result<profiler::LaunchResult> launch(profiler::KernelHandle kernel, const profiler::LaunchShape& shape,
                                          std::span<const profiler::LaunchValue> arguments,
                                          std::span<const std::uint64_t> blocks) override {
      return inner_->launch(kernel, shape, arguments, blocks);
    }
    [[nodiscard]] bool samples_blocks() const override { return inner_->samples_blocks(); }
    [[nodiscard]] std::vector<profiler::WrittenRange> written(profiler::BufferHandle buffer) const override {
      return inner_->written(buffer);
    }

   private:
    BreakingDevice& device_;
    std::unique_ptr<profiler::Session> inner_;
  };
};

inline bool has_exponential(const std::string& ptx) { return ptx.find("ex2.approx") != std::string::npos; }

}  // namespace stitch::tuning
