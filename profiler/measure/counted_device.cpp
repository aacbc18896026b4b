#include "profiler/measure/counted_device.h"

#include <algorithm>

namespace stitch::profiler {
namespace {

class CountedSession final : public TimedSession {
 public:
  CountedSession(std::unique_ptr<Session> session, bool counts) : session_(std::move(session)), counts_(counts) {}

  Result<KernelHandle> load(const KernelImage& image) override { return session_->load(image); }
  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) override {
    return session_->allocate(std::move(name), bytes, std::move(fill), access);
  }
  Status free(BufferHandle buffer) override { return session_->free(buffer); }
  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override {
    return session_->read(buffer, offset, into);
  }
  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override {
    return session_->write(buffer, offset, from);
  }
  Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape, std::span<const LaunchValue> arguments,
                              std::span<const std::uint64_t> blocks) override {
    return session_->launch(kernel, shape, arguments, blocks);
  }
  void stop_with(const std::stop_token& stop) override { session_->stop_with(stop); }
  [[nodiscard]] bool samples_blocks() const override { return session_->samples_blocks(); }
  [[nodiscard]] std::vector<WrittenRange> written(BufferHandle buffer) const override {
    return session_->written(buffer);
  }

  Result<Measurement> measure(const MeasureTask& task) override {
    STITCH_TRY(check_task(task));
    if (!counts_) {
      return make_error(ErrorKind::unsupported, "the emulated device has no times; ask it for counts");
    }
    Measurement measurement = begin_measurement(task);
    measurement.kind = Measurement::Kind::event_count;
    measurement.unit = "sectors";
    measurement.method = "emulator counters";
    for (const auto& steps : task.rotations) {
      STITCH_ASSIGN(const double sectors, count(steps));
      measurement.samples.push_back(sectors);
    }
    summarise(measurement, Verdict::precise);
    measurement.stopped = "counted once per rotation";
    return measurement;
  }

 private:
  Result<double> count(const std::vector<PlanStep>& steps) {
    double sectors = 0;
    for (const PlanStep& step : steps) {
      if (const auto* copy = std::get_if<PlannedCopy>(&step)) {
        STITCH_TRY(carry_out(*copy));
        const std::int64_t touched = (copy->bytes + 31) / 32;
        sectors += static_cast<double>(2 * touched);
        continue;
      }
      if (std::holds_alternative<PlannedCall>(step)) {
        return make_error(ErrorKind::unsupported, "an emulated device calls no libraries");
      }
      const auto& planned = std::get<PlannedLaunch>(step);
      STITCH_ASSIGN(const auto launched, session_->launch(planned.kernel, planned.shape, planned.arguments, {}));
      if (!launched.findings.empty()) return make_error(ErrorKind::runtime, "{}", launched.findings.front());
      const emulator::Counters& counters = *launched.counters;
      sectors += counters.global_loads.sectors + counters.global_stores.sectors + counters.global_atomic_sectors;
    }
    return sectors;
  }

  Status carry_out(const PlannedCopy& copy) {
    constexpr std::int64_t chunk = std::int64_t{1} << 20;
    std::vector<std::byte> bytes;
    for (std::int64_t at = 0; at < copy.bytes; at += chunk) {
      bytes.resize(std::min(chunk, copy.bytes - at));
      STITCH_TRY(session_->read(copy.from, at, bytes));
      STITCH_TRY(session_->write(copy.to, at, bytes));
    }
    return {};
  }

  std::unique_ptr<Session> session_;
  bool counts_;
};

}  // namespace

Result<std::unique_ptr<TimedSession>> CountedDevice::timed_session() {
  STITCH_ASSIGN(auto session, device_.session());
  return std::unique_ptr<TimedSession>(std::make_unique<CountedSession>(std::move(session), counts_));
}

}  // namespace stitch::profiler
