#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/measure/timed_device.h"

namespace stitch::profiler::test {

/// A session that leaves everything to another one: what a test changes, it overrides.
class ForwardingSession : public TimedSession {
 public:
  explicit ForwardingSession(std::unique_ptr<TimedSession> inner) : inner_(std::move(inner)) {}
  Result<KernelHandle> load(const KernelImage& image) override { return inner_->load(image); }
  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) override {
    return inner_->allocate(std::move(name), bytes, std::move(fill), access);
  }
  Status free(BufferHandle buffer) override { return inner_->free(buffer); }
  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override {
    return inner_->read(buffer, offset, into);
  }
  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override {
    return inner_->write(buffer, offset, from);
  }
  Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape, std::span<const LaunchValue> arguments,
                              std::span<const std::uint64_t> blocks) override {
    return inner_->launch(kernel, shape, arguments, blocks);
  }
  void stop_with(const std::stop_token& stop) override { inner_->stop_with(stop); }
  [[nodiscard]] bool samples_blocks() const override { return inner_->samples_blocks(); }
  [[nodiscard]] std::vector<WrittenRange> written(BufferHandle buffer) const override {
    return inner_->written(buffer);
  }
  Result<Measurement> measure(const MeasureTask& task) override { return inner_->measure(task); }

 private:
  std::unique_ptr<TimedSession> inner_;
};

}  // namespace stitch::profiler::test
