#include "tests/fuzz/mutation.h"

#include <array>
#include <cctype>
#include <string_view>

namespace stitch::fuzz {
namespace {

constexpr std::array<std::string_view, 12> extreme_numbers = {"0",
                                                              "-1",
                                                              "1e999",
                                                              "nan",
                                                              "255",
                                                              "2147483647",
                                                              "-2147483648",
                                                              "4294967296",
                                                              "9223372036854775807",
                                                              "-9223372036854775808",
                                                              "18446744073709551616",
                                                              "0.1"};

std::size_t place_in(const std::string& text, Random& random) { return random.below(text.size() + 1); }

/// A piece of up to 64 bytes.
std::string piece_of(const std::string& text, Random& random) {
  return text.substr(place_in(text, random), 1 + random.below(64));
}

void replace_number(std::string& text, Random& random) {
  std::size_t begin = place_in(text, random);
  while (begin < text.size() && std::isdigit(static_cast<unsigned char>(text[begin])) == 0) ++begin;
  std::size_t end = begin;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  text.replace(begin, end - begin, extreme_numbers[random.below(extreme_numbers.size())]);
}

void change(std::string& text, std::span<const std::string> others, Random& random) {
  switch (random.below(7)) {
    case 0:
      if (!text.empty()) text[random.below(text.size())] ^= static_cast<char>(1 << random.below(8));
      return;
    case 1:
      if (!text.empty()) text[random.below(text.size())] = static_cast<char>(random.below(256));
      return;
    case 2: text.erase(place_in(text, random), 1 + random.below(64)); return;
    case 3: text.insert(place_in(text, random), piece_of(text, random)); return;
    case 4:
      if (!others.empty()) text.insert(place_in(text, random), piece_of(others[random.below(others.size())], random));
      return;
    case 5: text.resize(place_in(text, random)); return;
    default: replace_number(text, random); return;
  }
}

}  // namespace

std::string mutated(std::string input, std::span<const std::string> others, Random& random) {
  const std::uint64_t changes = 1 + random.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) change(input, others, random);
  return input;
}

}  // namespace stitch::fuzz
