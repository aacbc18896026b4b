#include "cli/explain/drawing.h"

#include <algorithm>
#include <cmath>

namespace stitch::cli {
namespace {

/// Whether the byte begins a character of UTF-8.
bool begins_character(char byte) { return (byte & 0xc0) != 0x80; }

int longest_line(const std::vector<std::string>& lines) {
  int longest = 0;
  for (const std::string& line : lines) longest = std::max(longest, text_length(line));
  return longest;
}

}  // namespace

int text_length(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

Extent text_extent(const std::vector<std::string>& lines) {
  return {longest_line(lines) * measure::advance * measure::box_font, std::ssize(lines) * measure::box_line};
}

Extent label_extent(std::string_view label) {
  return {text_length(label) * measure::advance * measure::label_font + measure::padding, measure::label_line};
}

Extent box_extent(const Drawing::Box& box) {
  const Extent text = text_extent(box.lines);
  return {text.width + 2 * measure::padding, text.height + measure::padding};
}

int hue_of(int number) {
  constexpr double golden_angle = 137.508;  // its steps never come close to a hue that was used a moment ago
  return static_cast<int>(std::fmod(golden_angle * number + 210, 360));
}

std::string shortened(std::string_view text, int most) {
  if (text_length(text) <= most) return std::string(text);
  std::string result;
  int characters = 0;
  for (const char byte : text) {
    if (begins_character(byte) && ++characters == most) break;
    result += byte;
  }
  return result + "…";
}

}  // namespace stitch::cli
