#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/model_check.h"

void stitch::fuzz::fuzz_one(std::string_view bytes) { check_model(import::import_aten(bytes, import_limits())); }
