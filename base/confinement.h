#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// What a child process does to itself before it works on what strangers sent: a defect of a compiler or an interpreter
// that is reached through a request must not reach further. The parent starts it with an environment of its own choice
// (base/subprocess.h); here is what only the child can do, once it has loaded and opened what it needs.

// The shadow memory of sanitizers takes terabytes of addresses: where one is built in, they are not limited. GCC says
// so by macros, clang by a function of its preprocessor.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STITCH_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STITCH_SHADOW_MEMORY 1
#endif
#endif

namespace stitch {

/// Limits that the operating system keeps (setrlimit(2)); 0 leaves a limit as it is. There is none on processes: it
/// counts all that the user runs (Confinement::programs is the child's own).
struct ProcessLimits {
  std::int64_t address_space_bytes = 0;  ///< beyond what the process has when it is confined
  std::int64_t file_bytes = -1;          ///< of each file that it writes; -1 leaves the limit
  int descriptors = 0;                   ///< open at once

  bool operator==(const ProcessLimits&) const = default;
};

/// What a process gives up for good. No core is ever dumped: it would hold what others sent.
struct Confinement {
  ProcessLimits limits;
  /// No file but those in `readable` (files, or folders with all in them) is opened any more, and those for reading
  /// only. Linux 5.13's Landlock; what is open stays open.
  bool files = true;
  std::vector<std::filesystem::path> readable;
  /// No socket but those of the machine itself (AF_UNIX) is made, and none at all where `local_sockets` is false.
  bool network = true;
  bool local_sockets = false;
  /// No program and no other process is started, nor is one looked into. Threads are.
  bool programs = true;
  /// A program that may take this process's place all the same (execve), with what that may be loaded from: files, or
  /// folders with all in them, readable too. It stays as confined.
  std::vector<std::filesystem::path> runnable = {};
};

/// Confines this process. Call it from its first thread, before others are started: the kernel's file rules hold for
/// the caller and for threads and processes that it starts afterwards. Returns what could not be given up, in words
/// for a log: an old kernel, or a container that forbids the calls, leaves a process with less confinement, not
/// without its work.
std::vector<std::string> confine(const Confinement& confinement);

}  // namespace stitch
