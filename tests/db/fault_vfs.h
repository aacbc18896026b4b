#pragma once

#include <sqlite3.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>

namespace stitch::db {

/// An SQLite VFS over the default one that fails one chosen write, sync or truncation, or dies in it.
class FaultVfs {
 public:
  FaultVfs() : base_(*sqlite3_vfs_find(nullptr)) {
    static std::atomic<int> counter{0};
    name_ = "fault" + std::to_string(counter++);
    vfs_ = base_;
    vfs_.zName = name_.c_str();
    vfs_.pNext = nullptr;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + base_.szOsFile;
    vfs_.pAppData = this;
    vfs_.xOpen = open;
    sqlite3_vfs_register(&vfs_, 0);
  }
  ~FaultVfs() { sqlite3_vfs_unregister(&vfs_); }
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  /// The nth operation from now on (1: the next) fails with this code, once.
  void fail_at(int nth, int code) {
    code_ = code;
    failed_ = false;
    countdown_ = nth;
  }
  /// The process is killed at the nth operation from now on; a write has been done by half then.
  void die_at(int nth) {
    code_ = SQLITE_ABORT;
    countdown_ = nth;
  }
  /// No more failures; returns whether there was one.
  bool stop() {
    countdown_ = 0;
    return failed_;
  }

 private:
  /// Lies in front of the file of the VFS below.
  struct File {
    sqlite3_file head;
    FaultVfs* vfs;
  };
  static sqlite3_file* below(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<std::byte*>(file) + sizeof(File));
  }

  int next(sqlite3_file* file) {
    (void)file;
    if (countdown_ == 0 || --countdown_ != 0) return SQLITE_OK;
    failed_ = true;
    return code_;
  }
  static int fault(sqlite3_file* file) { return reinterpret_cast<File*>(file)->vfs->next(file); }

  static int die_or(int code) {
    if (code == SQLITE_ABORT) std::raise(SIGKILL);
    return code;
  }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    auto* self = static_cast<FaultVfs*>(vfs->pAppData);
    reinterpret_cast<File*>(file)->vfs = self;
    const int code = self->base_.xOpen(&self->base_, path, below(file), flags, out);
    file->pMethods = below(file)->pMethods ? &methods : nullptr;
    return code;
  }
  static int close(sqlite3_file* f) { return below(f)->pMethods->xClose(below(f)); }
  static int read(sqlite3_file* f, void* to, int count, sqlite3_int64 at) {
    return below(f)->pMethods->xRead(below(f), to, count, at);
  }
  static int write(sqlite3_file* f, const void* from, int count, sqlite3_int64 at) {
    if (const int code = fault(f)) {
      if (code == SQLITE_ABORT) below(f)->pMethods->xWrite(below(f), from, count / 2, at);
      return die_or(code);
    }
    return below(f)->pMethods->xWrite(below(f), from, count, at);
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    if (const int code = fault(f)) return die_or(code);
    return below(f)->pMethods->xTruncate(below(f), size);
  }
  static int sync(sqlite3_file* f, int flags) {
    if (const int code = fault(f)) return die_or(code);
    return below(f)->pMethods->xSync(below(f), flags);
  }
  static int size(sqlite3_file* f, sqlite3_int64* size) { return below(f)->pMethods->xFileSize(below(f), size); }
  static int lock(sqlite3_file* f, int level) { return below(f)->pMethods->xLock(below(f), level); }
  static int unlock(sqlite3_file* f, int level) { return below(f)->pMethods->xUnlock(below(f), level); }
  static int reserved(sqlite3_file* f, int* out) { return below(f)->pMethods->xCheckReservedLock(below(f), out); }
  static int control(sqlite3_file* f, int op, void* argument) {
    return below(f)->pMethods->xFileControl(below(f), op, argument);
  }
  static int sector(sqlite3_file* f) { return below(f)->pMethods->xSectorSize(below(f)); }
  static int characteristics(sqlite3_file* f) { return below(f)->pMethods->xDeviceCharacteristics(below(f)); }
  static int map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
    return below(f)->pMethods->xShmMap(below(f), page, size, extend, out);
  }
  static int shm_lock(sqlite3_file* f, int offset, int count, int flags) {
    return below(f)->pMethods->xShmLock(below(f), offset, count, flags);
  }
  static void barrier(sqlite3_file* f) { below(f)->pMethods->xShmBarrier(below(f)); }
  static int unmap(sqlite3_file* f, int remove) { return below(f)->pMethods->xShmUnmap(below(f), remove); }

  static inline const sqlite3_io_methods methods = {
      2,      close,           read, write,    truncate, sync,  size,    lock,   unlock, reserved, control,
      sector, characteristics, map,  shm_lock, barrier,  unmap, nullptr, nullptr};

  sqlite3_vfs base_;
  sqlite3_vfs vfs_{};
  std::string name_;
  std::atomic<int> countdown_{0};
  int code_ = SQLITE_OK;
  bool failed_ = false;
};

}  // namespace stitch::db
