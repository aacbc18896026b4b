#include "import/hlo/lowering.h"
#include "import/hlo/parser.h"
#include "import/import.h"

namespace stitch::import {

Result<Imported> import_hlo_text(std::string_view text, const ImportOptions& options) {
  STITCH_ASSIGN(const hlo::Module module, hlo::parse_module(text));
  return hlo::Lowering(module, options).run();
}

}  // namespace stitch::import
