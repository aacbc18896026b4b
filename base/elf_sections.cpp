#include "base/elf_sections.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace stitch {
namespace {

template <class T>
bool copy_at(std::string_view bytes, std::uint64_t offset, T& value) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) return false;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return true;
}

}  // namespace

const ElfSection* ElfFile::find(std::string_view name) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const ElfSection& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

std::optional<ElfFile> read_elf(std::string_view bytes) {
  Elf64_Ehdr header;
  if (!copy_at(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return std::nullopt;
  }
  Elf64_Shdr names;
  if (!copy_at(bytes, header.e_shoff + std::uint64_t{header.e_shstrndx} * sizeof names, names)) return std::nullopt;
  ElfFile file{header.e_flags, header.e_ident[EI_ABIVERSION], {}};
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!copy_at(bytes, header.e_shoff + i * sizeof section, section)) return std::nullopt;
    const std::uint64_t name = names.sh_offset + section.sh_name;
    if (names.sh_offset > bytes.size() || name >= bytes.size()) return std::nullopt;
    const std::string_view rest = bytes.substr(name);
    std::string_view contents;
    if (section.sh_type != SHT_NOBITS) {
      if (section.sh_offset > bytes.size() || bytes.size() - section.sh_offset < section.sh_size) return std::nullopt;
      contents = bytes.substr(section.sh_offset, section.sh_size);
    }
    file.sections.push_back({rest.substr(0, rest.find('\0')), contents, section.sh_size});
  }
  return file;
}

}  // namespace stitch
