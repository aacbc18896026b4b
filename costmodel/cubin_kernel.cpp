#include "costmodel/cubin_kernel.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/elf_sections.h"

namespace stitch::costmodel {
namespace {

constexpr std::string_view code_prefix = ".text.";
constexpr int volta = 70;

// Attributes of .nv.info, and the only form of them that has a size of its own.
constexpr unsigned char sized_value = 0x04;
constexpr unsigned char max_threads = 0x05, required_threads = 0x10, register_count = 0x2f;

/// Since version 8 of the format the number stands a byte higher.
int architecture_of(const ElfFile& file) {
  return file.abi_version >= 8 ? (file.flags >> 8) & 0xFF : file.flags & 0xFF;
}

std::uint32_t word(std::string_view bytes, std::size_t index) {
  std::uint32_t value = 0;
  if (bytes.size() >= index * 4 + 4) std::memcpy(&value, bytes.data() + index * 4, 4);
  return value;
}

/// Calls `take(attribute, value)` for each attribute with a value of its own size, until one ends behind the section.
template <class Take>
void for_each_attribute(std::string_view section, Take take) {
  while (section.size() >= 4) {
    const unsigned char form = section[0], attribute = section[1];
    std::uint16_t size = 0;
    std::memcpy(&size, section.data() + 2, 2);
    section.remove_prefix(4);
    if (form != sized_value) continue;
    if (size > section.size()) return;
    take(attribute, section.substr(0, size));
    section.remove_prefix(size);
  }
}

}  // namespace

Result<CubinKernel> find_kernel(std::string_view cubin, std::string_view entry) {
  const auto file = read_elf(cubin);
  if (!file) return make_error(ErrorKind::parse, "{} bytes of cubin are no ELF file", cubin.size());
  CubinKernel kernel;
  for (const ElfSection& section : file->sections) {
    if (!section.name.starts_with(code_prefix)) continue;
    const std::string_view name = section.name.substr(code_prefix.size());
    if (!entry.empty() && name != entry) continue;
    if (!kernel.entry.empty())
      return make_error(ErrorKind::parse, "the cubin has several kernels ({}, {}); name one", kernel.entry, name);
    kernel.entry = name;
    kernel.code = section.contents;
  }
  if (kernel.entry.empty())
    return make_error(ErrorKind::parse, "the cubin has no code of {}", entry.empty() ? "any kernel" : entry);
  kernel.architecture = architecture_of(*file);
  if (kernel.architecture < volta)
    return make_error(ErrorKind::parse, "machine code for sm_{}: only that of sm_70 and later is read",
                      kernel.architecture);
  const std::string of_entry(kernel.entry);
  if (const ElfSection* info = file->find(".nv.info." + of_entry)) {
    for_each_attribute(info->contents, [&](unsigned char attribute, std::string_view value) {
      if (attribute == max_threads || attribute == required_threads)
        kernel.threads = word(value, 0) * std::max(1U, word(value, 1)) * std::max(1U, word(value, 2));
    });
  }
  // Counts of the whole module name functions by their symbols; the most of any is what a kernel may need.
  if (const ElfSection* info = file->find(".nv.info")) {
    for_each_attribute(info->contents, [&](unsigned char attribute, std::string_view value) {
      if (attribute == register_count) kernel.registers = std::max<int>(kernel.registers, word(value, 1));
    });
  }
  if (const ElfSection* shared = file->find(".nv.shared." + of_entry)) kernel.shared_bytes = shared->bytes;
  return kernel;
}

}  // namespace stitch::costmodel
