#pragma once

#include <span>
#include <string>

#include "base/random.h"

namespace stitch::fuzz {

/// One to four random changes of an input: bytes flipped, numbers made extreme, pieces cut, repeated, moved, or taken
/// from another input. What damaged files and hostile clients send; coverage-guided search is libFuzzer's part.
std::string mutated(std::string input, std::span<const std::string> others, Random& random);

}  // namespace stitch::fuzz
