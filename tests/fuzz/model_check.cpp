#include "tests/fuzz/model_check.h"

#include "graph/verify.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {

stitch::import::ImportOptions import_limits() {
  import::ImportOptions options;
  options.max_bytes = 1 << 24;
  options.max_nodes = 1 << 13;
  return options;
}

void check_model(const Result<import::Imported>& imported) {
  if (imported) {
    promise(graph::verify(imported->graph).ok(), "what is imported is verified");
    return;
  }
  promise(!imported.error().message.empty(), "a refusal says why");
  promise(imported.error().kind != ErrorKind::internal, "a refusal is the input's fault");
}

}  // namespace stitch::fuzz
