#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "cli/emulate/kernel_case.h"

namespace stitch::cli {

/// Kernels of one maker with their launches and expected results (tests/data/foreign/README.md has the format).
struct KernelCorpus {
  std::string maker;
  std::string origin;   ///< package and version, compiler
  std::string licence;  ///< SPDX
  struct Entry {
    KernelCase kernel;
    std::string reference;              ///< what the expected results were computed by
    std::vector<std::string> findings;  ///< detectors that the kernel is known to set off, and rightly so
    std::string why;                    ///< … with the reason
  };
  std::vector<Entry> entries;
};

/// Reads a corpus, gzipped or not. Errors: parse, invalid_argument, corrupt, and those of files; they name the kernel.
Result<KernelCorpus> read_corpus(const std::filesystem::path& path, const FileSystem& files);

/// What one kernel of a corpus did.
struct CorpusRow {
  std::string maker;
  std::string name;
  std::string reference;
  std::string failure;   ///< empty: right
  std::string findings;  ///< detectors that it set off, known ones
  std::string why;
  std::int64_t compared = 0;
  emulator::Counters counters;
};

/// Runs every kernel whose name contains `filter`; `progress` is told each row as it is done.
std::vector<CorpusRow> run_corpus(const KernelCorpus& corpus, const std::string& filter,
                                  const std::function<void(const CorpusRow&)>& progress);

/// docs/foreign-kernels.md.
std::string corpus_page(const std::vector<KernelCorpus>& corpora, const std::vector<CorpusRow>& rows);

}  // namespace stitch::cli
