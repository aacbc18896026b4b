#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "costmodel/machine_instruction.h"

/// Reads what `nvdisasm -c -hex` prints of a cubin with one kernel, to compare our own decoder with, and to write
/// instructions down in tests. Names refer to the text.
namespace stitch::test {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// The number in "/* 0x000e620000000a00 */" at the end of a line.
inline std::optional<std::uint64_t> encoding_word(std::string_view line) {
  const std::size_t at = line.rfind("/* 0x");
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t word = 0;
  const char* const begin = line.data() + at + 5;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), word, 16);
  if (error != std::errc() || end != begin + 16) return std::nullopt;
  return word;
}

class ListingReader {
 public:
  explicit ListingReader(std::string_view listing) : rest_(listing) {}

  Status read() {
    while (next()) {
      const std::string_view line = trimmed(line_);
      if (line.ends_with(':') && line.starts_with(".L")) {
        labels_[std::string(line.substr(0, line.size() - 1))] = code.size();
      } else if (line.starts_with("/*") && !line.starts_with("/* ")) {
        STITCH_TRY(instruction(line));
      }
    }
    if (code.empty()) return make_error(ErrorKind::parse, "machine code: no instruction in {} lines", number_);
    for (const auto& [at, label] : branches_) {
      const auto to = labels_.find(label);
      if (to == labels_.end()) return make_error(ErrorKind::parse, "no label {}", label);
      code[at].target = to->second < code.size() ? code[to->second].address : code.back().address + 16;
    }
    return {};
  }

  std::vector<costmodel::MachineInstruction> code;
  std::vector<std::string_view> operations;  ///< with their modifiers: "LDG.E.128"
  std::vector<std::pair<std::uint64_t, std::uint64_t>> encodings;

 private:
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++number_;
    return true;
  }
  [[nodiscard]] Error wrong(std::string_view what) const {
    return make_error(ErrorKind::parse, "machine code, line {}: {}", number_, what);
  }

  /// "/*0050*/  @!P0 LDG.E R1, [R2.64] ;  /* 0x… */" and the second word on the next line.
  Status instruction(std::string_view line) {
    costmodel::MachineInstruction one;
    const std::size_t close = line.find("*/");
    if (close == std::string_view::npos) return wrong("an address without end");
    const auto [end, error] = std::from_chars(line.data() + 2, line.data() + close, one.address, 16);
    if (error != std::errc() || end != line.data() + close) return wrong("an address that is no number");
    std::string_view text = trimmed(line.substr(close + 2));
    const std::size_t stop = text.find(';');
    if (stop == std::string_view::npos) return wrong("an instruction without its end");
    text = trimmed(text.substr(0, stop));
    if (text.starts_with('@')) {
      one.predicated = true;
      text = trimmed(text.substr(std::min(text.find(' '), text.size())));
    }
    const std::string_view operation = text.substr(0, text.find(' '));
    if (operation.empty()) return wrong("no operation");
    operations.push_back(operation);
    one.name = operation.substr(0, operation.find('.'));
    one.pipe = costmodel::pipe_of(one.name);
    one.width = width_of(operation);
    one.passes_l1 = one.name == "LDG" && operation.find(".STRONG.GPU") != std::string_view::npos;
    if (const std::size_t from = text.find("`("); from != std::string_view::npos && one.name == "BRA")
      branches_.emplace_back(code.size(), std::string(text.substr(from + 2, text.find(')', from) - from - 2)));
    const auto low = encoding_word(line);
    if (!low || !next()) return wrong("no encoding: list with -hex");
    const auto high = encoding_word(line_);
    if (!high) return wrong("no second word of the encoding");
    costmodel::read_control(*high, one);
    code.push_back(one);
    encodings.emplace_back(*low, *high);
    return {};
  }

  static int width_of(std::string_view operation) {
    const auto has = [&](std::string_view part) { return operation.find(part) != std::string_view::npos; };
    if (has(".128") || has("F32x4")) return 16;
    if (has(".64") || has("F32x2") || has(".S64") || has(".F64")) return 8;
    if (has(".U8") || has(".S8")) return 1;
    return has(".U16") || has(".S16") ? 2 : 4;
  }

  std::string_view rest_, line_;
  int number_ = 0;
  std::map<std::string, std::size_t, std::less<>> labels_;  ///< index of the instruction that follows
  std::vector<std::pair<std::size_t, std::string>> branches_;
};

/// Where a decoded code first differs from a listing of it; empty where it does not. Widths are compared of what moves
/// data; targets of all branches within the listing.
inline std::string first_difference(const std::vector<costmodel::MachineInstruction>& code, const ListingReader& read) {
  if (code.size() != read.code.size()) return fmt::format("{} instructions, {}", code.size(), read.code.size());
  for (std::size_t i = 0; i < code.size(); ++i) {
    const costmodel::MachineInstruction &ours = code[i], &theirs = read.code[i];
    const bool moves =
        theirs.is_load() || theirs.is_store() || theirs.is_local() || theirs.name == "LDS" || theirs.name == "STS";
    if (ours.name != theirs.name || ours.predicated != theirs.predicated || ours.stall != theirs.stall ||
        ours.sets_result != theirs.sets_result || ours.sets_read != theirs.sets_read || ours.waits != theirs.waits ||
        ours.passes_l1 != theirs.passes_l1 || (moves && ours.width != theirs.width) ||
        (theirs.target && ours.target != theirs.target)) {
      return fmt::format("{:#x} {}: {} of {} bytes, to {}, listed to {}", theirs.address, read.operations[i], ours.name,
                         ours.width, ours.target.value_or(-1), theirs.target.value_or(-1));
    }
  }
  return {};
}

}  // namespace stitch::test
