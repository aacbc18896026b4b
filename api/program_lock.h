#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/program_document.h"
#include "base/result.h"

namespace stitch::api {

/// What programs are run by, as text for version control: of each its id, target, and per fragment the key, the plan's
/// id and the hashes of its code, in the program's order. Equal programs with equal plans give equal bytes, whatever
/// was measured or predicted of them.
///
///     stitch-lock 1
///     program 5f1c…  bert.onnx
///     target h100 sm_90a 13.0.88 0.1.0
///     fragment 1b2e…  plan 77a0…  code 9c0d… 41ff…
///     fragment 9a01…  no plan
///     program …
std::string lock_of(std::span<const Program> programs);
std::string lock_of(const Program& program);

struct LockedFragment {
  int line = 0;  ///< of the lock
  Hash128 key;
  std::optional<Hash128> plan;
  std::vector<Sha256> code;
};

struct LockedProgram {
  int line = 0;
  Hash128 id;
  std::string model;
  PlanTarget target;
  std::vector<LockedFragment> fragments;
};

/// Errors: parse (no lock, its line), version_mismatch.
Result<std::vector<LockedProgram>> parse_lock(std::string_view lock);

/// What a lock has of a program: of those with its id the one for its target, or else the first; null: nothing.
const LockedProgram* locked_in(std::span<const LockedProgram> lock, const Program& program);
/// Null: the fragment is none of the locked program's.
const LockedFragment* fragment_in(const LockedProgram& locked, const Hash128& key);

/// Whether the program is what the lock says of it, whatever it is called: of a lock of several programs, of the one
/// with its id. Errors: those of parse_lock's first line; constraint, naming the first thing that differs.
Status check_lock(std::string_view lock, const Program& program);

}  // namespace stitch::api
