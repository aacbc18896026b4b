#include "cli/package/local_program.h"

#include "base/trace.h"
#include "import/import.h"
#include "tuning/programs/model_program.h"

namespace stitch::cli {

Result<api::Program> make_local_program(const LocalProgram& wanted, const std::string& bytes,
                                        const Interruption& interruption) {
  tuning::TunerOptions options;
  options.products = wanted.products;
  STITCH_ASSIGN(const auto session, Session::open(wanted.common, options, {wanted.database}));
  std::unique_ptr<tuning::RememberingTuner> memory;
  if (session->store != nullptr) {
    STITCH_ASSIGN(memory, tuning::RememberingTuner::open(*session->store, *session->tuner, session->clock));
  }
  import::ImportOptions asked;
  asked.constraints = wanted.common.constraints;
  STITCH_ASSIGN(const auto imported, import::import_bytes(bytes, wanted.name, asked));
  const tuning::ProgramRequest request{.name = wanted.name,
                                       .source = sha256(bytes),
                                       .tunes = wanted.tunes,
                                       .memory = memory.get(),
                                       .makes = wanted.makes,
                                       .progress = progress_display(wanted.common.quiet),
                                       .stop = interruption.token()};
  trace::Phase phase("plan", {{"name", wanted.name}, {"device", session->tuner->target().device}});
  return trace::noted(phase, tuning::make_program(imported, *session->tuner, request));
}

}  // namespace stitch::cli
