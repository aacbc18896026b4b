#include "tuning/kernels/built_kernel.h"

namespace stitch::tuning {

codegen::CompileRequest compile_request(std::string source, std::string architecture) {
  codegen::CompileRequest request;
  request.source = std::move(source);
  request.architecture = std::move(architecture);
  request.options = {"--prec-div=false", "--prec-sqrt=false"};
  return request;
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
