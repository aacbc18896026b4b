#pragma once

#include <string>
#include <string_view>

#include "api/program_document.h"
#include "base/result.h"

namespace stitch::api {

/// What a program is run by, as text for version control: its id, target, and per fragment the key, the plan's id and
/// the hashes of its code, in the program's order. Equal programs with equal plans give equal bytes, whatever was
/// measured or predicted of them.
///
///     stitch-lock 1
///     program 5f1c…  bert.onnx
///     target h100 sm_90a 13.0.88 0.1.0
///     fragment 1b2e…  plan 77a0…  code 9c0d… 41ff…
std::string lock_of(const Program& program);

/// Whether the program is what the lock says. Errors: parse (no lock, its line), version_mismatch; constraint, naming
/// the first thing that differs.
Status check_lock(std::string_view lock, const Program& program);

}  // namespace stitch::api
