#include "tuning/kernels/recorded_timer.h"

#include "codegen/generator_version.h"
#include "kernel/program/schedule_hash.h"

namespace stitch::tuning {

RecordedTimer::RecordedTimer(profiler::Recording recording, std::string file, const Hash128& hash)
    : recording_(std::move(recording)), index_(recording_), file_(std::move(file)), identity_(recording_.device) {
  identity_.key = "recorded:" + hash.hex();
  identity_.kind = "recorded";
}

Result<std::unique_ptr<RecordedTimer>> RecordedTimer::open(const FileSystem& files, const std::filesystem::path& path) {
  STITCH_ASSIGN(const std::string bytes, files.read(path));
  auto recording = profiler::decode_recording(bytes);
  if (!recording) return recording.error().within(path.string());
  if (recording->generator != codegen::generator_version()) {
    return make_error(ErrorKind::version_mismatch, "{}: recorded with code generator {}, this is {}", path.string(),
                      recording->generator, codegen::generator_version());
  }
  return std::unique_ptr<RecordedTimer>(
      new RecordedTimer(std::move(*recording), path.filename().string(), hash_bytes(bytes)));
}

Result<profiler::Measurement> RecordedTimer::measure_kernel(const BuiltKernel& built) {
  const search::ExploredKernel& kernel = *built.candidate.kernel;
  const profiler::RecordedKernel* recorded = index_.kernel(kernel.key);
  if (recorded == nullptr) {
    return make_error(ErrorKind::not_found, "{} has no kernel {}", file_, kernel.key.hex());
  }
  const Hash128 hash = kernel::schedule_hash(built.candidate.scheduled->schedule);
  const profiler::RecordedCandidate* candidate = index_.candidate(kernel.key, hash);
  if (candidate == nullptr) {
    return make_error(ErrorKind::not_found, "{}: schedule {} is not among the {} recorded of kernel {} (for {})", file_,
                      hash.hex(), recorded->candidates.size(), kernel.key.hex(), recording_.target);
  }
  if (candidate->failure) return candidate->failure->within(fmt::format("recorded on {}", recording_.device.name));
  return profiler::replayed(recording_, *candidate);
}

Result<std::vector<profiler::Measurement>> RecordedTimer::measure_plans(std::span<const RunnablePlan>) {
  return make_error(ErrorKind::unsupported, "{}: a recording has times of kernels, not of plans", file_);
}

}  // namespace stitch::tuning
