#include "codegen/compile/resource_usage.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "base/elf_sections.h"

namespace stitch::codegen {
namespace {

constexpr std::string_view entry_prefix = "Compiling entry function '";
constexpr std::string_view properties_prefix = "Function properties for ";

/// A figure in ptxas's report: the number before `unit`.
struct Figure {
  std::string_view unit;
  int ResourceUsage::*member;
};

/// The line after "Function properties for": "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads".
constexpr std::array<Figure, 3> property_figures = {{
    {" bytes stack frame", &ResourceUsage::stack_bytes},
    {" bytes spill stores", &ResourceUsage::spill_store_bytes},
    {" bytes spill loads", &ResourceUsage::spill_load_bytes},
}};

/// "Used 32 registers, used 1 barriers, 448 bytes cumulative stack size, 128 bytes smem, 360 bytes cmem[0]".
constexpr std::array<Figure, 5> usage_figures = {{
    {" registers", &ResourceUsage::registers},
    {" barriers", &ResourceUsage::barriers},
    {" bytes cumulative stack size", &ResourceUsage::cumulative_stack_bytes},
    {" bytes smem", &ResourceUsage::shared_bytes},
    {" bytes gmem", &ResourceUsage::global_bytes},
}};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view next_field(std::string_view& line) {
  const std::size_t end = line.find(',');
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return field;
}

/// The number that ends where `unit` begins.
std::optional<int> number_before(std::string_view field, std::string_view unit) {
  const std::size_t end = field.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && field[begin - 1] >= '0' && field[begin - 1] <= '9') --begin;
  int value = 0;
  const auto [stop, code] = std::from_chars(field.data() + begin, field.data() + end, value);
  if (code != std::errc() || stop != field.data() + end) return std::nullopt;
  return value;
}

template <std::size_t N>
bool read_figures(std::string_view line, const std::array<Figure, N>& figures, ResourceUsage& usage) {
  bool found = false;
  while (!line.empty()) {
    const std::string_view field = next_field(line);
    for (const Figure& figure : figures) {
      if (const auto value = number_before(field, figure.unit)) {
        usage.*figure.member = *value;
        found = true;
      }
    }
    if (const auto constants = number_before(field, " bytes cmem[")) usage.constant_bytes += *constants;
  }
  return found;
}

/// Whether a constant bank holds data of `entry`: its own (".nv.constant0.entry") or the module's (".nv.constant3").
bool is_constant_of(std::string_view section, std::string_view entry) {
  constexpr std::string_view prefix = ".nv.constant";
  if (!section.starts_with(prefix) || section.size() == prefix.size()) return false;
  section.remove_prefix(prefix.size());
  const std::size_t bank_end = section.find_first_not_of("0123456789");
  if (bank_end == 0) return false;
  return bank_end == std::string_view::npos || section.substr(bank_end) == fmt::format(".{}", entry);
}

}  // namespace

std::string ResourceUsage::describe() const {
  std::string text = fmt::format("{} registers", registers);
  if (shared_bytes != 0) text += fmt::format(", {} bytes shared", shared_bytes);
  if (stack_bytes != 0) text += fmt::format(", {} bytes stack", stack_bytes);
  if (spills()) text += fmt::format(", {}/{} bytes spilled (stores/loads)", spill_store_bytes, spill_load_bytes);
  return text;
}

Result<std::vector<EntryUsage>> parse_ptxas_log(std::string_view log) {
  std::vector<EntryUsage> entries;
  std::vector<bool> complete;
  ResourceUsage module;
  bool in_entry = false;             // between "Compiling entry function" and its "Used"
  bool properties_of_entry = false;  // the next line has its stack and spills; noinline functions have theirs, too
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    if (const std::size_t at = line.find(entry_prefix); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + entry_prefix.size());
      entries.push_back({std::string(rest.substr(0, rest.find('\''))), {}});
      complete.push_back(false);
      in_entry = true;
    } else if (const std::size_t properties = line.find(properties_prefix); properties != std::string_view::npos) {
      properties_of_entry = in_entry && line.substr(properties + properties_prefix.size()) == entries.back().entry;
    } else if (properties_of_entry) {
      read_figures(line, property_figures, entries.back().usage);
      properties_of_entry = false;
    } else if (in_entry && line.find(": Used ") != std::string_view::npos) {
      complete.back() = read_figures(line, usage_figures, entries.back().usage);
      in_entry = false;
    } else if (line.starts_with("ptxas info") && line.find(" bytes gmem") != std::string_view::npos) {
      read_figures(line, usage_figures, module);
    }
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ResourceUsage& usage = entries[i].usage;
    if (!complete[i]) {
      return make_error(ErrorKind::parse, "ptxas does not say what entry {} uses", entries[i].entry);
    }
    usage.cumulative_stack_bytes = std::max(usage.cumulative_stack_bytes, usage.stack_bytes);
    usage.global_bytes = module.global_bytes;
    usage.constant_bytes += module.constant_bytes;
  }
  return entries;
}

Status complete_from_cubin(std::string_view cubin, std::vector<EntryUsage>& entries) {
  const auto file = read_elf(cubin);
  if (!file) return make_error(ErrorKind::parse, "{} bytes of cubin are no ELF file", cubin.size());
  for (EntryUsage& entry : entries) {
    const std::string code = ".text." + entry.entry;
    if (file->find(code) == nullptr) {
      return make_error(ErrorKind::parse, "the cubin has no code of entry {}", entry.entry);
    }
    std::uint64_t bytes = 0;
    for (const ElfSection& section : file->sections) {
      if (is_constant_of(section.name, entry.entry)) bytes += section.bytes;
    }
    entry.usage.constant_bytes = bytes;
  }
  return {};
}

ResourceUsage maximum_usage(const std::vector<EntryUsage>& entries) {
  ResourceUsage maximum;
  constexpr std::array members = {
      &ResourceUsage::registers,         &ResourceUsage::barriers,         &ResourceUsage::shared_bytes,
      &ResourceUsage::stack_bytes,       &ResourceUsage::constant_bytes,   &ResourceUsage::cumulative_stack_bytes,
      &ResourceUsage::spill_store_bytes, &ResourceUsage::spill_load_bytes, &ResourceUsage::global_bytes,
  };
  for (const EntryUsage& entry : entries) {
    for (const auto member : members) maximum.*member = std::max(maximum.*member, entry.usage.*member);
  }
  return maximum;
}

}  // namespace stitch::codegen
