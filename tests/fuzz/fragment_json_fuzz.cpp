#include "tests/fuzz/fragment_check.h"
#include "tests/fuzz/fuzz_target.h"

void stitch::fuzz::fuzz_one(std::string_view bytes) { check_fragment(bytes, graph::Encoding::json); }
