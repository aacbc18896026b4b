#pragma once
// Tiles of operands whose lines begin anywhere in a word of 16 bytes: threads ask for the words that cover 16 bytes of
// a tile, hold them, and shift them by where the line begins when they store them (kernel/contraction/
// realigned_copy.h).

#include "stitch/contraction.cuh"

namespace stitch {

// Of a tensor's last word, the `bytes` that are the tensor's; zeros behind.
template <int bytes>
__device__ __forceinline__ uint4 last_word(const unsigned char* from) {
  u32 words[4] = {};
#pragma unroll
  for (int i = 0; i < bytes / 4; ++i) ask_for<Cached::ahead>(words[i], reinterpret_cast<const u32*>(from) + i);
  if constexpr (bytes % 4 >= 2) {
    u16 half;
    ask_for<Cached::ahead>(half, reinterpret_cast<const u16*>(from + bytes / 4 * 4));
    words[bytes / 4] = half;
  }
  if constexpr (bytes % 2 == 1) {
    u8 byte;
    ask_for<Cached::ahead>(byte, from + bytes - 1);
    words[bytes / 4] |= static_cast<u32>(byte) << 8 * (bytes % 4 - 1);
  }
  return {words[0], words[1], words[2], words[3]};
}

// 16 bytes of two words, from byte `shift` of the first on, a multiple of `aligned`.
template <int aligned>
__device__ __forceinline__ void shift_words(u32 (&to)[4], const uint4& first, const uint4& second, int shift) {
  u32 words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) words[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
  if constexpr (aligned < 8) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = (shift & 4) != 0 ? words[i + 1] : words[i];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (aligned < 4) {
      to[i] = __funnelshift_r(words[i], words[i + 1], 8 * shift);  // of a shift its lowest five bits
    } else {
      to[i] = words[i];
    }
  }
}

// Zeros around the bytes from `first` up to `last` of 16.
__device__ __forceinline__ void leave_bytes(u32 (&words)[4], int first, int last) {
  const auto below = [](int bytes) { return bytes >= 4 ? 0xffffffffu : bytes <= 0 ? 0u : (1u << 8 * bytes) - 1; };
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] &= below(last - 4 * i) & ~below(first - 4 * i);
}

// Asks for 16 bytes of a tensor that ends with them or behind them, or with some of them, where it may be `at_end`.
template <bool at_end, class Operand>
__device__ __forceinline__ void ask_for_word(uint4& to, const unsigned char* from, const Operand& operand) {
  if constexpr (at_end) {
    if (from + 16 > reinterpret_cast<const unsigned char*>(operand.end)) {
      to = last_word<Operand::ragged>(from);
      return;
    }
  }
  ask_for<Cached::ahead>(to, reinterpret_cast<const uint4*>(from));
}

// A tile on its way, in the registers of a block's threads. `operand` is as copy_tile's, and knows besides by how many
// bytes lines are aligned at least (`aligned`), where its tensor ends, how many bytes the last word has where it is not
// whole (`ragged`), and whether a tile up to an element may reach that word (`reaches_end`).
template <class Tile, int threads, class Operand>
struct RealignedTile {
  using T = typename Tile::type;
  using Run = TileRun<Tile>;
  static constexpr int size = static_cast<int>(sizeof(T)), word = 16;
  static_assert(Tile::copy_bytes == word && word % size == 0);
  static constexpr int each = (Run::total + threads - 1) / threads;
  static constexpr int rows = Tile::along_depth ? Tile::lines : Tile::line_elements;
  static constexpr int depth = Tile::along_depth ? Tile::line_elements : Tile::lines;
  // Whether a run ends where its line does, or before.
  static constexpr bool whole_runs = (Tile::along_depth ? Operand::depth : Operand::rows) % Run::length == 0;
  uint4 first[each], second[each];

  __device__ __forceinline__ void load(const Operand& operand, int first_row, int first_k) {
    if constexpr (Operand::ragged == 0) {
      load_runs<false>(operand, first_row, first_k);
    } else {
      const int last_row = minimum(first_row + rows, Operand::rows) - 1;
      const int last_k = minimum(first_k + depth, Operand::depth) - 1;
      if (operand.reaches_end(last_row, last_k)) {
        load_runs<true>(operand, first_row, first_k);
      } else {
        load_runs<false>(operand, first_row, first_k);
      }
    }
  }

  __device__ __forceinline__ void store(unsigned char* to, const Operand& operand, int first_row, int first_k) const {
    for_each_run(first_row, first_k, [&](int number, const Run& run) {
      u32 words[4] = {};
      if (run.is_within(operand)) {
        shift_words<Operand::aligned>(words, first[number], second[number], shift_of(begin_of(operand, run)));
        if constexpr (!whole_runs) {
          if (wanted(run) < word) leave_bytes(words, 0, wanted(run));
        }
      }
      *reinterpret_cast<uint4*>(to + run.place()) = {words[0], words[1], words[2], words[3]};
    });
  }

 private:
  __device__ static __forceinline__ const unsigned char* begin_of(const Operand& operand, const Run& run) {
    return reinterpret_cast<const unsigned char*>(operand.data + operand.at(run.row, run.k));
  }
  __device__ static __forceinline__ int shift_of(const unsigned char* begin) {
    return static_cast<int>(reinterpret_cast<u64>(begin) % word);
  }
  // Bytes of a run that are its line's.
  __device__ static __forceinline__ int wanted(const Run& run) {
    if constexpr (whole_runs) return word;
    return minimum(word, (Tile::along_depth ? Operand::depth - run.k : Operand::rows - run.row) * size);
  }
  template <bool at_end>
  __device__ __forceinline__ void load_runs(const Operand& operand, int first_row, int first_k) {
    for_each_run(first_row, first_k, [&](int number, const Run& run) {
      if (!run.is_within(operand)) return;
      const unsigned char* const begin = begin_of(operand, run);
      const int shift = shift_of(begin);
      ask_for_word<at_end>(first[number], begin - shift, operand);
      if (shift + wanted(run) > word) ask_for_word<at_end>(second[number], begin - shift + word, operand);
    });
  }
  template <class Visit>
  __device__ static __forceinline__ void for_each_run(int first_row, int first_k, const Visit& visit) {
#pragma unroll
    for (int number = 0; number < each; ++number) {
      const int i = number * threads + static_cast<int>(threadIdx.x);
      if (Run::total % threads != 0 && i >= Run::total) break;
      visit(number, Run(i, first_row, first_k));
    }
  }
};

// The same of an operand along whose depth lines of `line` elements follow one another that go on elsewhere: a run has
// elements of a line and of the next one, of either those that are `shown`.
template <class Tile, int threads, class Operand>
struct PartedTile {
  using T = typename Tile::type;
  using Run = TileRun<Tile>;
  static constexpr int size = static_cast<int>(sizeof(T)), word = 16;
  static_assert(Tile::copy_bytes == word && Tile::along_depth && Operand::line >= Run::length);
  static constexpr int each = (Run::total + threads - 1) / threads;
  uint4 words[each][2][2];

  __device__ __forceinline__ void load(const Operand& operand, int first_row, int first_k) {
    for_each_part(operand, first_row, first_k, [&](int number, int which, const Part& part) {
      constexpr bool at_end = Operand::ragged != 0;
      const unsigned char* const from = part.begin - part.shift;
      if (part.shift + part.first < word) ask_for_word<at_end>(words[number][which][0], from, operand);
      if (part.shift + part.last > word) ask_for_word<at_end>(words[number][which][1], from + word, operand);
    });
  }

  __device__ __forceinline__ void store(unsigned char* to, const Operand& operand, int first_row, int first_k) const {
#pragma unroll
    for (int number = 0; number < each; ++number) {
      const int i = number * threads + static_cast<int>(threadIdx.x);
      if (Run::total % threads != 0 && i >= Run::total) break;
      u32 all[4] = {};
      const Run run(i, first_row, first_k);
      for_each_part_of(operand, run, [&](int which, const Part& part) {
        u32 own[4];
        shift_words<Operand::aligned>(own, words[number][which][0], words[number][which][1], part.shift);
        leave_bytes(own, part.first, part.last);
#pragma unroll
        for (int w = 0; w < 4; ++w) all[w] |= own[w];
      });
      *reinterpret_cast<uint4*>(to + run.place()) = {all[0], all[1], all[2], all[3]};
    }
  }

 private:
  // Of a run, the bytes from `first` up to `last` that are a line's; `begin`: of the run, were all of it the line's.
  struct Part {
    const unsigned char* begin;
    int shift, first, last;
  };
  template <class Visit>
  __device__ static __forceinline__ void for_each_part_of(const Operand& operand, const Run& run, const Visit& visit) {
    if ((!Operand::whole_rows && run.row >= Operand::rows) || (!Operand::whole_depth && run.k >= Operand::depth))
      return;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int k = (run.k / Operand::line + which) * Operand::line, place = run.k - k;
      if (which == 1 && (place + Run::length <= 0 || k >= Operand::depth)) continue;
      int first, last;
      Operand::shown(run.row, k, first, last);
      first = maximum(first - place, 0);
      last = minimum(last - place, Run::length);
      if (first >= last) continue;
      const unsigned char* const begin =
          reinterpret_cast<const unsigned char*>(operand.data) + (operand.at(run.row, k) + place) * size;
      visit(which, Part{begin, static_cast<int>(reinterpret_cast<u64>(begin) % word), first * size, last * size});
    }
  }
  template <class Visit>
  __device__ static __forceinline__ void for_each_part(const Operand& operand, int first_row, int first_k,
                                                       const Visit& visit) {
#pragma unroll
    for (int number = 0; number < each; ++number) {
      const int i = number * threads + static_cast<int>(threadIdx.x);
      if (Run::total % threads != 0 && i >= Run::total) break;
      for_each_part_of(operand, Run(i, first_row, first_k),
                       [&](int which, const Part& part) { visit(number, which, part); });
    }
  }
};

}  // namespace stitch
