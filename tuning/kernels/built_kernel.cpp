#include "tuning/kernels/built_kernel.h"

#include "kernel/program/legality.h"
#include "profiler/measure/sample_comparison.h"

namespace stitch::tuning {

codegen::CompileRequest compile_request(std::string source, std::string architecture) {
  codegen::CompileRequest request;
  request.source = std::move(source);
  request.architecture = std::move(architecture);
  request.options = {"--prec-div=false", "--prec-sqrt=false"};
  return request;
}

Status check_residency(const codegen::GeneratedKernel& generated, const codegen::CompiledKernel& compiled,
                       const DeviceSpec& device) {
  const codegen::ResourceUsage& used = compiled.resources;
  const int resident =
      kernel::resident_blocks(generated.threads, used.registers, generated.shared_bytes + used.shared_bytes, device);
  if (resident < 1) {
    return make_error(ErrorKind::constraint, "a block of {} threads with {} does not fit an SM of {}",
                      generated.threads, used.describe(), device.name);
  }
  const std::int64_t together = std::int64_t{resident} * device.sm_count;
  if (!generated.cooperative || generated.blocks <= together) return {};
  return make_error(ErrorKind::constraint, "{} blocks must be resident together, {} has room for {}", generated.blocks,
                    device.name, together);
}

std::optional<Error> judge(std::shared_ptr<const BuiltKernel>& built, Result<profiler::Verification> found) {
  if (!found) return found.error();
  std::optional<Error> wrong;
  if (!found->correct) wrong = make_error(ErrorKind::correctness, "{}", found->failure);
  BuiltKernel judged = *built;
  judged.verification = *std::move(found);
  built = std::make_shared<const BuiltKernel>(std::move(judged));
  return wrong;
}

Result<profiler::Verification> verify_undisturbed(const std::stop_token& stop,
                                                  const std::function<Result<profiler::Verification>()>& verify) {
  constexpr int most = 4;  // each time costs the other kernel its place: it is quarantined
  for (int time = 1;; ++time) {
    Result<profiler::Verification> found = verify();
    const bool went_away = !found && found.error().kind == ErrorKind::unavailable;
    if (!went_away || time == most || stop.stop_requested()) return found;
  }
}

bool is_faster(const BuiltKernel& challenger, const BuiltKernel& best) {
  if (!challenger.measurement || !best.measurement) return false;
  return profiler::compare_measurements(*best.measurement, *challenger.measurement).verdict ==
         profiler::Comparison::faster;
}

bool spills_in_loop(const BuiltKernel& built) {
  return built.compiled.resources.spills() && built.machine_code && !built.machine_code->local_loops.empty();
}

bool may_depend(const BuiltKernel& built) {
  if (built.compiled.ptx.find("griddepcontrol.wait") == std::string::npos) return false;
  // Nothing else of ours passes by L1 there: a kernel that asks for nothing early has nothing early.
  const auto is_ordered = [&](const costmodel::MachineCodeFeatures& code) {
    return code.awaits && (code.unwaited_loads == 0 || built.generated.unwaited != 0);
  };
  if (built.machine_code) return is_ordered(*built.machine_code);
  const auto code = costmodel::read_machine_code(built.compiled.cubin, built.generated.name);
  return code && is_ordered(*code);
}

bool is_made_of(const BuiltKernel& built, const std::set<Sha256>& code) {
  return code.contains(sha256(built.compiled.ptx)) && code.contains(sha256(built.compiled.cubin));
}

profiler::KernelImage image_of(const BuiltKernel& built) {
  return {built.generated.name, built.compiled.ptx, built.compiled.cubin, built.compiled.architecture};
}

bool is_outcome(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::constraint:
    case ErrorKind::compile:
    case ErrorKind::timeout:
    case ErrorKind::runtime:
    case ErrorKind::correctness: return true;
    default: return false;
  }
}

Attempts Attempts::choose(std::vector<Trial> tried, std::ptrdiff_t chosen) {
  Attempts attempts;
  if (chosen >= 0) {
    attempts.best = std::move(tried[chosen]);
    tried.erase(tried.begin() + chosen);
  }
  attempts.others = std::move(tried);
  return attempts;
}

void Attempts::add(Trial trial) {
  if (trial.failure) {
    others.push_back(std::move(trial));
  } else {
    best = std::move(trial);
  }
}

std::vector<Trial> Attempts::all() const {
  std::vector<Trial> trials = others;
  if (best) trials.push_back(*best);
  return trials;
}

Error Attempts::why_none() const {
  if (others.empty()) return make_error(ErrorKind::internal, "it has no candidates");
  return *others.back().failure;
}

}  // namespace stitch::tuning
