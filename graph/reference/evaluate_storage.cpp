#include "graph/reference/evaluate_storage.h"

#include <algorithm>

namespace stitch::graph::reference {
namespace {

/// Arrays below this size are not worth keeping.
constexpr std::size_t smallest_pooled = 4096;

/// The smallest pooled array that holds `count`, or a new one; either way of exactly `count` elements.
template <class T>
std::vector<T> take(std::vector<std::vector<T>>& pool, std::size_t count, std::int64_t& pooled_bytes) {
  auto best = pool.end();
  if (count >= smallest_pooled) {
    for (auto candidate = pool.begin(); candidate != pool.end(); ++candidate) {
      if (candidate->size() >= count && candidate->size() <= 2 * count &&
          (best == pool.end() || candidate->size() < best->size())) {
        best = candidate;
      }
    }
  }
  if (best == pool.end()) return std::vector<T>(count);
  std::vector<T> taken = std::move(*best);
  pool.erase(best);
  pooled_bytes -= taken.capacity() * sizeof(T);
  taken.resize(count);
  return taken;
}

template <class T>
void give(std::vector<std::vector<T>>& pool, std::vector<T>&& array, std::int64_t& pooled_bytes) {
  if (array.size() < smallest_pooled) return;
  pooled_bytes += array.capacity() * sizeof(T);
  pool.push_back(std::move(array));
}

}  // namespace

std::vector<double> Memory::take_doubles(std::size_t count) { return take(doubles_, count, pooled_); }
std::vector<std::int64_t> Memory::take_integers(std::size_t count) { return take(integers_, count, pooled_); }

Status Memory::go_on() const {
  if (!stop_.stop_requested()) return {};
  return make_error(ErrorKind::cancelled, "stopped while the reference was evaluated");
}

Status Memory::spend(double work) {
  STITCH_TRY(go_on());
  work_left_ -= work;
  if (work_left_ >= 0) return {};
  return make_error(ErrorKind::resource_exhausted, "it takes more operations than the evaluation may");
}

Result<StorageRef> Memory::make(DType dtype, std::int64_t elements, bool bounded) {
  const std::int64_t bytes = elements * (bounded ? 16 : 8);
  if (bytes > limit_ - alive_) {
    return make_error(ErrorKind::resource_exhausted, "{} bytes of values beside {} exceed the limit of {}", bytes,
                      alive_, limit_);
  }
  if (alive_ + pooled_ + bytes > limit_) {
    doubles_.clear();
    integers_.clear();
    pooled_ = 0;
  }
  alive_ += bytes;
  StorageRef storage(new Storage, [this, bytes](Storage* gone) {
    recycle(*gone, bytes);
    delete gone;
  });
  const std::size_t count = elements;
  if (is_floating(dtype)) {
    storage->floats = take_doubles(count);
  } else {
    storage->integers = take_integers(count);
  }
  if (bounded) storage->bounds = take_doubles(count);
  return storage;
}

void Memory::recycle(Storage& storage, std::int64_t bytes) {
  alive_ -= bytes;
  give(doubles_, std::move(storage.floats), pooled_);
  give(doubles_, std::move(storage.bounds), pooled_);
  give(integers_, std::move(storage.integers), pooled_);
}

StridedCopy simplified(const StridedCopy& copy) {
  StridedCopy s;
  for (std::size_t d = 0; d < copy.extents.size(); ++d) {
    if (copy.extents[d] == 1) continue;
    const bool joins = !s.extents.empty() && s.from_strides.back() == copy.extents[d] * copy.from_strides[d] &&
                       s.to_strides.back() == copy.extents[d] * copy.to_strides[d];
    if (joins) {
      s.extents.back() *= copy.extents[d];
      s.from_strides.back() = copy.from_strides[d];
      s.to_strides.back() = copy.to_strides[d];
    } else {
      s.extents.push_back(copy.extents[d]);
      s.from_strides.push_back(copy.from_strides[d]);
      s.to_strides.push_back(copy.to_strides[d]);
    }
  }
  return s;
}

namespace {

template <class T>
void copy_line(std::int64_t count, const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  if (to_stride == 1 && from_stride == 1) {
    std::copy_n(from, count, to);
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

/// The two innermost dimensions, in tiles, so that a transpose touches few cache lines at a time.
template <class T>
void copy_plane(const StridedCopy& s, std::size_t outer, const T* from, T* to) {
  constexpr std::int64_t tile = 32;
  const std::size_t inner = outer + 1;
  for (std::int64_t i0 = 0; i0 < s.extents[outer]; i0 += tile) {
    for (std::int64_t j0 = 0; j0 < s.extents[inner]; j0 += tile) {
      const std::int64_t i1 = std::min(i0 + tile, s.extents[outer]), j1 = std::min(j0 + tile, s.extents[inner]);
      for (std::int64_t i = i0; i < i1; ++i) {
        copy_line(j1 - j0, from + i * s.from_strides[outer] + j0 * s.from_strides[inner], s.from_strides[inner],
                  to + i * s.to_strides[outer] + j0 * s.to_strides[inner], s.to_strides[inner]);
      }
    }
  }
}

template <class T>
void copy_from(const StridedCopy& s, std::size_t d, const T* from, T* to) {
  const std::size_t left = s.extents.size() - d;
  if (left == 0) {
    *to = *from;
  } else if (left == 1) {
    copy_line(s.extents[d], from, s.from_strides[d], to, s.to_strides[d]);
  } else if (left == 2 && (s.from_strides[d + 1] > 1 || s.to_strides[d + 1] > 1)) {
    copy_plane(s, d, from, to);
  } else {
    for (std::int64_t i = 0; i < s.extents[d]; ++i) {
      copy_from(s, d + 1, from + i * s.from_strides[d], to + i * s.to_strides[d]);
    }
  }
}

template <class T>
void copy_any(const StridedCopy& copy, const T* from, T* to) {
  if (element_count(copy.extents) == 0) return;
  copy_from(simplified(copy), 0, from, to);
}

}  // namespace

void copy_strided(const StridedCopy& copy, const double* from, double* to) { copy_any(copy, from, to); }
void copy_strided(const StridedCopy& copy, const std::int64_t* from, std::int64_t* to) { copy_any(copy, from, to); }

void copy_values(const StridedCopy& copy, const Block& from, std::int64_t from_offset, Storage& to,
                 std::int64_t to_offset) {
  StridedCopy walk = copy;
  if (from.uniform) {
    walk.from_strides.assign(walk.extents.size(), 0);
    from_offset = 0;
  }
  const Storage& source = *from.data;
  if (is_floating(from.dtype)) {
    copy_any(walk, source.floats.data() + from_offset, to.floats.data() + to_offset);
  } else {
    copy_any(walk, source.integers.data() + from_offset, to.integers.data() + to_offset);
  }
  if (to.bounds.empty()) return;
  if (!source.bounds.empty()) {
    copy_any(walk, source.bounds.data() + from_offset, to.bounds.data() + to_offset);
  } else {
    const double zero = 0;
    walk.from_strides.assign(walk.extents.size(), 0);
    copy_any(walk, &zero, to.bounds.data() + to_offset);
  }
}

std::int64_t offset_in(const Box& box, const Dims& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset = offset * box.size[d] + (index[d] - box.start[d]);
  return offset;
}

Result<Block> extract(Memory& memory, const Block& block, const Box& box) {
  if (block.uniform || block.box == box) return Block{block.dtype, box, block.data, block.uniform};
  STITCH_ASSIGN(StorageRef storage, memory.make(block.dtype, box.elements(), !block.exact()));
  storage->nonnegative = block.data->nonnegative;
  if (!box.empty()) {
    copy_values({box.size, row_major_strides(block.box.size), row_major_strides(box.size)}, block,
                offset_in(block.box, box.start), *storage, 0);
  }
  return Block{block.dtype, box, std::move(storage), false};
}

Result<Block> expanded(Memory& memory, const Block& block) {
  if (!block.uniform) return block;
  STITCH_ASSIGN(StorageRef storage, memory.make(block.dtype, block.box.elements(), !block.exact()));
  storage->nonnegative = block.data->nonnegative;
  const Dims strides = row_major_strides(block.box.size);
  copy_values({block.box.size, strides, strides}, block, 0, *storage, 0);
  return Block{block.dtype, block.box, std::move(storage), false};
}

}  // namespace stitch::graph::reference
