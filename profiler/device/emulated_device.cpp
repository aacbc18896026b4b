#include "profiler/device/emulated_device.h"

#include <algorithm>
#include <map>
#include <set>

#include "emulator/run/launch.h"

namespace stitch::profiler {
namespace {

class EmulatedSession final : public Session {
 public:
  explicit EmulatedSession(EmulatedOptions options) : options_(options) {}

  Result<KernelHandle> load(const KernelImage& image) override {
    STITCH_ASSIGN(auto program, emulator::Program::load(image.ptx, image.name));
    programs_.push_back(std::move(program));
    waits_.push_back(image.ptx.find("griddepcontrol.wait") != std::string::npos);
    return KernelHandle{static_cast<int>(programs_.size()) - 1};
  }

  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) override {
    STITCH_ASSIGN(auto buffer, memory_.allocate(std::move(name), bytes, contents_of(fill),
                                                access == Access::read_only ? emulator::Access::read_only
                                                                            : emulator::Access::read_write));
    buffers_.emplace(next_, buffer);
    return BufferHandle{next_++, bytes, buffer.address};
  }

  Status free(BufferHandle buffer) override {
    STITCH_ASSIGN(const auto known, find(buffer));
    buffers_.erase(buffer.id);
    return memory_.free(known);
  }

  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override {
    STITCH_ASSIGN(const auto known, find(buffer));
    return memory_.read(known.address + offset, into);
  }

  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override {
    STITCH_ASSIGN(const auto known, find(buffer));
    return memory_.write(known.address + offset, from);
  }

  Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape, std::span<const LaunchValue> arguments,
                              std::span<const std::uint64_t> blocks) override {
    if (kernel.id < 0 || kernel.id >= std::ssize(programs_)) {
      return make_error(ErrorKind::invalid_argument, "kernel handle {} is not loaded", kernel.id);
    }
    emulator::ParameterBlock parameters;
    for (const LaunchValue& value : arguments) {
      if (const auto* buffer = std::get_if<BufferHandle>(&value)) {
        STITCH_ASSIGN(const auto known, find(*buffer));
        parameters.add(known);
      } else {
        parameters.add(std::get<std::int64_t>(value));
      }
    }
    emulator::LaunchConfig config;
    config.grid.x = shape.blocks;
    config.block.x = shape.threads;
    config.cluster.x = shape.cluster;
    config.dynamic_shared_bytes = shape.shared_bytes;
    config.cooperative = shape.cooperative;
    emulator::LaunchOptions options;
    options.blocks = blocks;
    options.host_threads = options_.host_threads;
    options.instruction_budget = options_.instruction_budget;
    if (options_.shuffle_seed != 0) options.shuffle_seed = options_.shuffle_seed + launches_++;
    options.stop = stop_;
    emulator::EarlyAccesses early;
    const emulator::Program& program = programs_[kernel.id];
    const bool looks = shape.awaits && waits_[kernel.id];
    if (looks) options.early = &early;
    STITCH_ASSIGN(const auto report, emulator::launch(program, config, parameters.bytes(), memory_, options));
    LaunchResult result;
    for (const emulator::Finding& finding : report.findings) result.findings.push_back(emulator::to_text(finding));
    if (!report.completed && result.findings.empty()) result.findings.emplace_back("not every thread ran to its end");
    if (looks) add_early(early, unwaited_buffers(shape, arguments), result.findings);
    result.counters = report.counters;
    return result;
  }

  void stop_with(const std::stop_token& stop) override { stop_ = stop; }

  [[nodiscard]] bool samples_blocks() const override { return true; }

  [[nodiscard]] std::vector<WrittenRange> written(BufferHandle buffer) const override {
    const auto found = buffers_.find(buffer.id);
    if (found == buffers_.end()) return {};
    std::vector<WrittenRange> ranges;
    for (const emulator::ByteRange& range : memory_.written_ranges(found->second)) {
      ranges.push_back({static_cast<std::int64_t>(range.offset), static_cast<std::int64_t>(range.bytes)});
    }
    return ranges;
  }

 private:
  static emulator::Contents contents_of(const Fill& fill) {
    if (const auto* poison = std::get_if<Poison>(&fill)) return emulator::Contents::poison(poison->pattern);
    if (std::holds_alternative<Zero>(fill)) return emulator::Contents::zero();
    return emulator::Contents::lazy(std::get<Filler>(fill));
  }

  /// Of the arguments that a launch may read before it waits.
  static std::set<int> unwaited_buffers(const LaunchShape& shape, std::span<const LaunchValue> arguments) {
    std::set<int> buffers;
    for (std::size_t a = 0; a < std::min<std::size_t>(arguments.size(), 64); ++a) {
      const auto* buffer = std::get_if<BufferHandle>(&arguments[a]);
      if (buffer != nullptr && ((shape.unwaited >> a) & 1U) != 0) buffers.insert(buffer->id);
    }
    return buffers;
  }

  /// What it touched, but for reads of these, before it waited for the launch before it, and whether it waited at all:
  /// those behind it rely on that. Variables of its module are its own.
  void add_early(emulator::EarlyAccesses& early, const std::set<int>& unwaited,
                 std::vector<std::string>& findings) const {
    for (const emulator::EarlyAccesses::Touched& touched : early.touched()) {
      const bool may = touched.writes.empty() &&
                       std::ranges::any_of(unwaited, [&](int id) { return buffers_.at(id).address == touched.buffer; });
      if (may) continue;
      const bool known =
          std::ranges::any_of(buffers_, [&](const auto& buffer) { return buffer.second.address == touched.buffer; });
      if (!known) continue;
      const bool reads = !touched.reads.empty();
      const emulator::ByteRange& first = reads ? touched.reads.front() : touched.writes.front();
      findings.push_back(fmt::format("early_access: {} {} before griddepcontrol.wait", reads ? "reads" : "writes",
                                     memory_.describe(touched.buffer + first.offset)));
    }
    if (!early.waited()) findings.emplace_back("early_access: the kernel ends without griddepcontrol.wait");
  }

  [[nodiscard]] Result<emulator::Buffer> find(BufferHandle buffer) const {
    const auto found = buffers_.find(buffer.id);
    if (found == buffers_.end()) {
      return make_error(ErrorKind::invalid_argument, "buffer handle {} is not allocated", buffer.id);
    }
    return found->second;
  }

  EmulatedOptions options_;
  std::uint64_t launches_ = 0;
  std::stop_token stop_;
  emulator::Memory memory_;
  std::vector<emulator::Program> programs_;
  std::vector<bool> waits_;  ///< by kernel: its module has a griddepcontrol.wait
  std::map<int, emulator::Buffer> buffers_;
  int next_ = 0;
};

}  // namespace

EmulatedDevice::EmulatedDevice(EmulatedOptions options)
    : options_(options), identity_{"emulated", "emulated", "PTX emulator", "", "", 0, 0} {}

Result<std::unique_ptr<Session>> EmulatedDevice::session() {
  return std::unique_ptr<Session>(std::make_unique<EmulatedSession>(options_));
}

}  // namespace stitch::profiler
