#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/program_bytes.h"

// A program as it came, and as one would come that has its hashes right.
void stitch::fuzz::fuzz_one(std::string_view bytes) {
  const graph::Encoding encoding = bytes.starts_with('{') ? graph::Encoding::json : graph::Encoding::cbor;
  check_program_bytes(bytes, encoding);
  if (const auto hashed = with_its_hashes(bytes, encoding)) check_program_bytes(*hashed, encoding);
}
