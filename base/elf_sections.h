#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stitch {

/// A section of an ELF file.
struct ElfSection {
  std::string_view name;
  std::string_view contents;  ///< empty where the file holds none (.bss and its like)
  std::uint64_t bytes = 0;    ///< in memory
};

/// A 64-bit ELF file, of which everything refers to the bytes that were read.
struct ElfFile {
  std::uint32_t flags = 0;        ///< e_flags
  unsigned char abi_version = 0;  ///< of e_ident
  std::vector<ElfSection> sections;

  /// The first section of this name, or null.
  [[nodiscard]] const ElfSection* find(std::string_view name) const;
};

/// Nothing where the bytes are no 64-bit ELF file or end before what its headers promise.
std::optional<ElfFile> read_elf(std::string_view bytes);

}  // namespace stitch
