#include "base/confinement.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>

namespace stitch {
namespace {

using Notes = std::vector<std::string>;

#if defined(STITCH_SHADOW_MEMORY)
constexpr bool limits_memory = false;  // sanitizers keep terabytes of addresses for shadows of memory
#else
constexpr bool limits_memory = true;
#endif

void note_failure(Notes& notes, std::string_view what, int code) {
  notes.push_back(fmt::format("{}: {}", what, std::strerror(code)));
}

// ---- limits

void limit(int resource, std::int64_t value, std::string_view what, Notes& notes) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  rlimit wanted{};
  wanted.rlim_cur = wanted.rlim_max = std::min<rlim_t>(value, now.rlim_max);
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) != 0) note_failure(notes, what, errno);
}

/// A thread's stack is as large as the limit of stacks was when the program began, and some machines set gigabytes: no
/// thread could begin within a limit of address space. A program that this one becomes goes by the limit.
void keep_stacks_small(Notes& notes) {
  constexpr std::string_view what = "stacks stay large";
  constexpr std::size_t enough = std::size_t{8} << 20;  // Linux's own default
  rlimit now{};
  if (::getrlimit(RLIMIT_STACK, &now) != 0) return note_failure(notes, what, errno);
  now.rlim_cur = std::min<rlim_t>(now.rlim_cur, enough);
  if (::setrlimit(RLIMIT_STACK, &now) != 0) note_failure(notes, what, errno);
  pthread_attr_t threads;
  std::size_t bytes = 0;
  if (const int code = ::pthread_getattr_default_np(&threads); code != 0) return note_failure(notes, what, code);
  if (::pthread_attr_getstacksize(&threads, &bytes) == 0 && bytes > enough) {
    ::pthread_attr_setstacksize(&threads, enough);
    ::pthread_setattr_default_np(&threads);
  }
  ::pthread_attr_destroy(&threads);
}

/// Address space that this process has now; 0 where /proc is missing.
std::int64_t address_space_now() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

void keep_limits(const ProcessLimits& limits, Notes& notes) {
  limit(RLIMIT_CORE, 0, "no limit on cores", notes);
  if (limits_memory && limits.address_space_bytes > 0) {
    keep_stacks_small(notes);
    const std::int64_t now = address_space_now();
    if (now == 0) notes.emplace_back("the limit on memory counts what was there before: no /proc/self/statm");
    limit(RLIMIT_AS, now + limits.address_space_bytes, "no limit on memory", notes);
  }
  if (limits.file_bytes >= 0) limit(RLIMIT_FSIZE, limits.file_bytes, "no limit on files", notes);
  if (limits.descriptors > 0) limit(RLIMIT_NOFILE, limits.descriptors, "no limit on descriptors", notes);
}

// ---- files

// Rights that Debian's header does not have yet; a kernel that does not know them is told by its version.
constexpr std::uint64_t right_truncate = std::uint64_t{1} << 14;        // version 3
constexpr std::uint64_t right_device_control = std::uint64_t{1} << 15;  // version 5

std::uint64_t rights_of(long version) {
  std::uint64_t rights = (std::uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;  // all of version 1
  if (version >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) rights |= right_truncate;
  if (version >= 5) rights |= right_device_control;
  return rights;
}

void allow(std::uint64_t access, int rules, const std::filesystem::path& path, Notes& notes) {
  const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0) return;  // what is not there needs no right
  std::error_code ignored;
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = access;
  if (std::filesystem::is_directory(path, ignored)) beneath.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
  beneath.parent_fd = file;
  if (::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) {
    note_failure(notes, fmt::format("{} stays unreadable", path.string()), errno);
  }
  ::close(file);
}

void give_up_files(const Confinement& confinement, Notes& notes) {
  constexpr std::string_view what = "files stay reachable: no Landlock";
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return note_failure(notes, what, errno);
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = rights_of(version);
  const int rules = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
  if (rules < 0) return note_failure(notes, what, errno);
  constexpr std::uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE;
  for (const std::filesystem::path& path : confinement.readable) allow(read, rules, path, notes);
  for (const std::filesystem::path& path : confinement.runnable)
    allow(read | LANDLOCK_ACCESS_FS_EXECUTE, rules, path, notes);
  if (::syscall(SYS_landlock_restrict_self, rules, 0) != 0) note_failure(notes, what, errno);
  ::close(rules);
}

// ---- system calls

/// Calls by which a process reaches others, or the machine: refused with EPERM where there are no programs to start.
constexpr std::array refused_calls = {
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(kexec_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(personality),
};

struct ReleaseFilter {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};

/// A filter that lets everything through but what is told below; one that grants what it does not know would have to
/// name what each version of a compiler, an allocator and a C library calls.
int refuse_programs(scmp_filter_ctx filter, bool may_become_another) {
  int failure = 0;
  std::vector<int> calls(refused_calls.begin(), refused_calls.end());
  if (!may_become_another) calls.insert(calls.end(), {SCMP_SYS(execve), SCMP_SYS(execveat)});
  for (const int call : calls) {
    // A call that libseccomp does not know on this architecture cannot be made either.
    const int code = ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
    if (code != 0 && code != -EDOM && code != -EINVAL) failure = code;
  }
  // Threads are made by clone with CLONE_THREAD; clone3's flags lie in memory, where a filter does not see them, and
  // the C library falls back to clone where it is told that there is none.
  const int clone = ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                       SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  const int clone3 = ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  // Its own threads may be signalled, and so may nobody else be (kill with a process id of others).
  const int kill = ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(kill), 1,
                                      SCMP_A0(SCMP_CMP_NE, static_cast<scmp_datum_t>(::getpid())));
  for (const int code : {clone, clone3, kill}) failure = code != 0 ? code : failure;
  return failure;
}

int refuse_sockets(scmp_filter_ctx filter, bool local_sockets) {
  const std::uint32_t refusal = SCMP_ACT_ERRNO(EACCES);
  if (!local_sockets) return ::seccomp_rule_add(filter, refusal, SCMP_SYS(socket), 0);
  return ::seccomp_rule_add(filter, refusal, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
}

void give_up_calls(const Confinement& confinement, Notes& notes) {
  constexpr std::string_view what = "system calls stay unfiltered";
  const std::unique_ptr<void, ReleaseFilter> filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (!filter) return note_failure(notes, what, ENOMEM);
  // All threads that are there already, and quickly: the filter is asked at every call.
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  int failure = confinement.programs ? refuse_programs(filter.get(), !confinement.runnable.empty()) : 0;
  if (failure == 0 && confinement.network) failure = refuse_sockets(filter.get(), confinement.local_sockets);
  if (failure == 0) failure = ::seccomp_load(filter.get());
  if (failure != 0) note_failure(notes, what, -failure);
}

}  // namespace

std::vector<std::string> confine(const Confinement& wanted) {
  Notes notes;
  Confinement confinement = wanted;
#ifdef STITCH_COVERAGE
  // The lines that a process has executed go into files when it ends.
  confinement.files = false;
  confinement.limits.file_bytes = -1;
  confinement.limits.descriptors = 0;
#endif
  keep_limits(confinement.limits, notes);
  // Without it an unprivileged process may not restrict itself; with it no program gains rights by its file's mode.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) note_failure(notes, "new privileges stay possible", errno);
  if (confinement.files) give_up_files(confinement, notes);
  if (confinement.network || confinement.programs) give_up_calls(confinement, notes);
  return notes;
}

}  // namespace stitch
