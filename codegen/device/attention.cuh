#pragma once
// Attention: two products with a softmax between them, of which nothing but maxima and sums of rows is kept from one
// tile of keys to the next (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022). A warp has whole rows.

#include "stitch/contraction.cuh"
#include "stitch/math.cuh"

namespace stitch {

// Of a lane's rows so far: a logit near the greatest one, or that itself, and of its own columns the sum of the
// exponentials relative to it; where statistics of rows are stored, the greatest logit of its own columns, too.
template <class Scores, bool with_statistics = false>
struct AttentionRows {
  f32 greatest[Scores::own_rows], sum[Scores::own_rows];
  f32 own_greatest[with_statistics ? Scores::own_rows : 1];

  __device__ __forceinline__ AttentionRows() {
#pragma unroll
    for (int r = 0; r < Scores::own_rows; ++r) {
      greatest[r] = -__int_as_float(0x7f800000);
      sum[r] = 0;
      if constexpr (with_statistics) own_greatest[r] = -__int_as_float(0x7f800000);
    }
  }
};

// What exponentials of a row are relative to: a row that has nothing but −∞ so far has weights of 0.
__device__ __forceinline__ f32 base_of_row(f32 greatest) {
  return greatest == -__int_as_float(0x7f800000) ? 0.f : greatest;
}

// Where an extent ends; within it every tile is whole, and nothing is asked, where it is `whole`.
template <int extent, bool whole>
struct End {
  __device__ static __forceinline__ bool before(int i) { return whole || i < extent; }
  // Whether n elements from a multiple of n on are all before it, or none is.
  __device__ static __forceinline__ constexpr bool keeps(int n) { return whole || extent % n == 0; }
};

// Where an element lies that is `place` elements into pages in the order of their table, each of so many elements.
template <s64 page, s64 pages, class T>
__device__ __forceinline__ s64 in_pages(const T* table, s64 place) {
  const u64 at = static_cast<u64>(place) / page;
  T number = load_one<Cached::streamed>(table + at);
  if (number < T(0)) number = 0;
  const u64 last = static_cast<u64>(pages - 1), own = static_cast<u64>(number) > last ? last : static_cast<u64>(number);
  return static_cast<s64>((own - at) * page) + place;
}

// How many of `keys` a mask shows whose bound, an integer from memory, is so many keys before their end.
template <class T>
__device__ __forceinline__ int shown_keys(T bound, int behind, int keys) {
  if (bound < T(0)) return 0;
  const u64 within = static_cast<u64>(bound) > 0x7fffffffu ? 0x7fffffffu : static_cast<u64>(bound);
  const s64 shown = static_cast<s64>(within) + behind;
  return shown < 0 ? 0 : shown > keys ? keys : static_cast<int>(shown);
}

// Scores become what weights are made of: logits, or logits ÷ their factor where they are the sums times a factor
// (`Logits::scaled`, which is generated). Those outside of rows and keys become −∞. `row` and `key`: of the warp's
// first one. `seen`: all are within, and no mask of positions hides one of them.
template <class Rows, class Keys, class Logits, bool seen, class Scores, class Score>
__device__ __forceinline__ void make_logits(Scores& scores, const Score& score, int batch, int row, int key) {
  constexpr int run = seen || Keys::keeps(Scores::row_run) ? Scores::row_run : 1;
  const int first = key + Scores::column_of(0);
#pragma unroll
  for (int s = 0; s < (seen && Logits::scaled ? 0 : Scores::strips); ++s) {
#pragma unroll
    for (int i = 0; i < Scores::strip_results; i += run) {
      const int m = row + s * Scores::strip_step + Scores::row_of(i), behind = Scores::columns_behind(i);
      const f32 hidden = -__int_as_float(0x7f800000);
      f32 sums[run], logits[run];
#pragma unroll
      for (int v = 0; v < run; ++v) {
        sums[v] = scores.result(s, i + v);
        logits[v] = hidden;
      }
      if (seen || (Rows::before(m) && Keys::before(first + behind)))
        score.template run<seen>(sums, batch, m, first, logits, behind);
        // The score as it is, so that a row has the same bits whether its tile reaches beyond the rows or not.
#pragma unroll
      for (int v = 0; v < run; ++v)
        scores.result(s, i + v) = Logits::scaled && logits[v] != hidden ? sums[v] : logits[v];
    }
  }
}
template <class Rows, class Keys, class Logits, class Scores, class Score>
__device__ __forceinline__ void make_logits(Scores& scores, const Score& score, bool seen, int batch, int row,
                                            int key) {
  if (seen) {
    make_logits<Rows, Keys, Logits, true>(scores, score, batch, row, key);
  } else {
    make_logits<Rows, Keys, Logits, false>(scores, score, batch, row, key);
  }
}

// exp(logit − greatest logit), of what make_logits leaves. Where that is scaled, factor and log2(e) are one: a
// multiply-add and an exponential; the products with them are finite then.
template <class Logits>
struct Exponentials {
  __device__ static __forceinline__ f32 in_exponent(f32 value) {
    return Logits::scaled ? __fmul_rn(value, Logits::log2_factor) : value;
  }
  __device__ static __forceinline__ f32 base_of(f32 greatest) { return in_exponent(base_of_row(greatest)); }
  __device__ static __forceinline__ f32 of(f32 value, f32 base) {
    return Logits::scaled ? exp2_approximate(fmaf(value, Logits::log2_factor, -base)) : exponential(value - base);
  }
  // What was relative to a smaller maximum is multiplied by this: rounded as its base was.
  __device__ static __forceinline__ f32 of_greatest(f32 greatest, f32 base) {
    return Logits::scaled ? exp2_approximate(__fmul_rn(greatest, Logits::log2_factor) - base)
                          : exponential(greatest - base);
  }
};

// Logits become weights relative to the greatest logit so far, or to one whose exponential is at most 2^8 times less,
// so that what was summed before seldom has to follow a maximum that grows (FlashAttention-4): whether it does, by
// `scale`. Weights of 2^8 are as exact as those of 1 are, in f16, too.
template <class Logits, class Scores, bool with_statistics>
__device__ __forceinline__ bool make_weights(Scores& scores, AttentionRows<Scores, with_statistics>& rows,
                                             f32 (&scale)[Scores::own_rows]) {
  using Exponential = Exponentials<Logits>;
  f32 greatest[Scores::own_rows];
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) greatest[r] = -__int_as_float(0x7f800000);
#pragma unroll
  for (int s = 0; s < Scores::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Scores::strip_results; ++i) {
      f32& most = greatest[Scores::own_row(s, i)];
      most = fmaxf(most, scores.result(s, i));
    }
  }
  if constexpr (with_statistics) {
#pragma unroll
    for (int r = 0; r < Scores::own_rows; ++r) rows.own_greatest[r] = fmaxf(rows.own_greatest[r], greatest[r]);
  }
  bool grows = false;
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) grows |= greatest[r] - rows.greatest[r] > Logits::growth;
  grows = __any_sync(0xffffffffu, grows);
  if (grows) {
#pragma unroll
    for (int r = 0; r < Scores::own_rows; ++r) {
      greatest[r] = fmaxf(greatest[r], rows.greatest[r]);
#pragma unroll
      for (int lanes = 1; lanes < Scores::row_lanes; lanes *= 2)
        greatest[r] = fmaxf(greatest[r], __shfl_xor_sync(0xffffffffu, greatest[r], lanes));
      // Each row by itself: its bits depend on no other one of the warp.
      if (greatest[r] - rows.greatest[r] <= Logits::growth) greatest[r] = rows.greatest[r];
      scale[r] = Exponential::of_greatest(rows.greatest[r], Exponential::base_of(greatest[r]));
      rows.greatest[r] = greatest[r];
      rows.sum[r] *= scale[r];
    }
  }
  f32 base[Scores::own_rows];
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) base[r] = Exponential::base_of(rows.greatest[r]);
#pragma unroll
  for (int s = 0; s < Scores::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Scores::strip_results; ++i) {
      const int r = Scores::own_row(s, i);
      f32& value = scores.result(s, i);
      value = Exponential::of(value, base[r]);
      rows.sum[r] += value;
    }
  }
  return grows;
}
// What a dropout leaves of weights, which have been summed. `row` and `key`: of the warp's first one.
template <class Rows, class Keys, class Scores, class Dropout>
__device__ __forceinline__ void drop_weights(Scores& scores, const Dropout& dropout, int batch, int row, int key) {
  constexpr int run = Keys::keeps(Scores::row_run) ? Scores::row_run : 1;
  const int first = key + Scores::column_of(0);
#pragma unroll
  for (int s = 0; s < Scores::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Scores::strip_results; i += run) {
      const int m = row + s * Scores::strip_step + Scores::row_of(i), behind = Scores::columns_behind(i);
      if (!Rows::before(m) || !Keys::before(first + behind)) continue;
      f32 weights[run], left[run];
#pragma unroll
      for (int v = 0; v < run; ++v) weights[v] = scores.result(s, i + v);
      dropout.run(weights, batch, m, first, left, behind);
#pragma unroll
      for (int v = 0; v < run; ++v) scores.result(s, i + v) = left[v];
    }
  }
}

template <class Product, int count>
__device__ __forceinline__ void scale_rows(Product& product, const f32 (&scale)[count]) {
#pragma unroll
  for (int s = 0; s < Product::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Product::strip_results; ++i) product.result(s, i) *= scale[Product::own_row(s, i)];
  }
}

template <class T>
__device__ __forceinline__ T narrowed(f32 x) {
  return narrow<T>(x);
}
template <>
__device__ __forceinline__ f32 narrowed<f32>(f32 x) {
  return x;
}

template <class T>
__device__ __forceinline__ u32 pair_of(f32 first, f32 second) {
  union {
    T elements[2];
    u32 word;
  } pair;
  pair.elements[0] = narrow<T>(first);
  pair.elements[1] = narrow<T>(second);
  return pair.word;
}

// The second product with weights in registers: a result of an instruction lies as half an operand of the next one.
struct WeightsInRegisters {
  template <int steps, class Scores, class Product>
  __device__ static __forceinline__ void multiply(Scores& scores, Product& product, unsigned char*,
                                                  const unsigned char* values) {
    using T = typename Product::left_type;
#pragma unroll
    for (int at = 0; at < steps; ++at) {
      typename Product::LeftPart left;
      typename Product::RightPart right;
#pragma unroll
      for (int i = 0; i < Product::across; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const f32(&sums)[4] = scores.sums[i][2 * at + half];
          left.words[i][2 * half] = pair_of<T>(sums[0], sums[1]);
          left.words[i][2 * half + 1] = pair_of<T>(sums[2], sums[3]);
        }
      }
      Product::load_right(right, values, 0, at);
      product.multiply(left, right);
    }
  }
};

// The same through shared memory of the warp.
template <class Tile>
struct WeightsInShared {
  template <int steps, class Scores, class Product>
  __device__ static __forceinline__ void multiply(Scores& scores, Product& product, unsigned char* weights,
                                                  const unsigned char* values) {
    using T = typename Tile::type;
    __syncwarp();
#pragma unroll
    for (int s = 0; s < Scores::strips; ++s) {
#pragma unroll
      for (int i = 0; i < Scores::strip_results; ++i)
        *reinterpret_cast<T*>(weights + Tile::place(s * Scores::strip_rows + Scores::row_of(i), Scores::column_of(i))) =
            narrowed<T>(scores.result(s, i));
    }
    __syncwarp();
#pragma unroll Product::unrolled
    for (int at = 0; at < steps; ++at) {
      typename Product::LeftPart left;
      typename Product::RightPart right;
      Product::load_left(left, weights, 0, at);
      Product::load_right(right, values, 0, at);
      product.multiply(left, right);
    }
  }
};

// The product of two whole tiles. `warp_row`: where the warp's rows lie in the left one.
template <int steps, class Scores>
__device__ __forceinline__ void multiply_tiles(Scores& scores, const unsigned char* left_tile,
                                               const unsigned char* right_tile, int warp_row) {
#pragma unroll Scores::unrolled
  for (int at = 0; at < steps; ++at) {
    typename Scores::LeftPart left;
    typename Scores::RightPart right;
    Scores::load_left(left, left_tile, warp_row, at);
    Scores::load_right(right, right_tile, 0, at);
    scores.multiply(left, right);
  }
}

// Where an update begins whose first place is an integer from memory, so that all of it is within.
template <class T>
__device__ __forceinline__ int first_new(T from, int last) {
  if (from < T(0)) return 0;
  return static_cast<unsigned long long>(from) > static_cast<unsigned long long>(last) ? last : static_cast<int>(from);
}

// A tile of keys or values of which `count` keys from `begin` on are new: takes those over that it has, and stores all
// of the tile where `kept` is, by the runs that this thread's copies brought; `keys_free`: keys are the free dimension.
// The others may read the tile once they know that this is done.
template <class Tile, int threads, int count, bool keys_free, bool keeps, class Operand, class Update>
__device__ __forceinline__ void update_tile(unsigned char* tile, const Operand& operand, const Update& update,
                                            int begin, typename Tile::type* kept, int first_row, int first_k) {
  using Run = typename Word<Tile::copy_bytes>::type;
  const int first_key = keys_free ? first_row : first_k;
  constexpr int keys = Tile::along_depth == keys_free ? Tile::lines : Tile::line_elements;
  const bool has_new = first_key < begin + count && begin < first_key + keys;
  if (has_new || (keeps && kept != nullptr)) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < TileRun<Tile>::total; i += threads) {
      const TileRun<Tile> at(i, first_row, first_k);
      const int row = at.row, k = at.k;
      if (!at.is_within(operand)) continue;
      Run* const place = reinterpret_cast<Run*>(tile + at.place());
      const int key = (keys_free ? row : k) - begin;
      Run elements;
      if (has_new && key >= 0 && key < count) {
        elements = *reinterpret_cast<const Run*>(update.data + (keys_free ? update.at(key, k) : update.at(row, key)));
        *place = elements;
      } else if (keeps) {
        elements = *place;
      }
      if (keeps && kept != nullptr) *reinterpret_cast<Run*>(kept + operand.at(row, k)) = elements;
    }
  }
  if (has_new) __syncthreads();
}

// One tile of keys and values. `row`: the warp's first one, `warp_row`: where that lies in the tile of queries.
// `dropout`: where there is one.
template <class Rows, class Keys, class Logits, int depth_steps, int key_steps, class Weights, class Scores,
          bool with_statistics, class Product, class Score, class... Dropout>
__device__ __forceinline__ void attend(Product& product, AttentionRows<Scores, with_statistics>& state,
                                       const Score& score, const unsigned char* query_tile,
                                       const unsigned char* key_tile, const unsigned char* value_tile,
                                       unsigned char* weights, bool seen, int batch, int row, int warp_row, int key,
                                       const Dropout&... dropout) {
  Scores scores;
  multiply_tiles<depth_steps>(scores, query_tile, key_tile, warp_row);
  make_logits<Rows, Keys, Logits>(scores, score, seen, batch, row, key);
  f32 scale[Scores::own_rows];
  if (make_weights<Logits>(scores, state, scale)) scale_rows(product, scale);
  (drop_weights<Rows, Keys>(scores, dropout, batch, row, key), ...);
  Weights::template multiply<key_steps>(scores, product, weights, value_tile);
}

// Of each row the greatest logit, and the sum of exponentials relative to it: `write` stores them, called by one of the
// row's lanes. `row`: the warp's first one. Rows of −∞ alone have a sum of exp(−∞ − −∞), which is NaN.
template <class Logits, class Scores, class Write>
__device__ __forceinline__ void store_statistics(const AttentionRows<Scores, true>& rows, int row, const Write& write) {
  using Exponential = Exponentials<Logits>;
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) {
    f32 sum = rows.sum[r], greatest = rows.own_greatest[r];
#pragma unroll
    for (int lanes = 1; lanes < Scores::row_lanes; lanes *= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
      greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, lanes));
    }
    // Maxima leave out NaN, which a sum of finite logits, or of −∞, does not become.
    if (!(sum == sum) && greatest < __int_as_float(0x7f800000)) greatest = sum;
    sum *= Exponential::of_greatest(rows.greatest[r], Exponential::in_exponent(greatest));
    if (static_cast<int>(threadIdx.x) % Scores::row_lanes == 0)
      write(row + Scores::place_of_own_row(r), Logits::scaled ? greatest * Logits::factor : greatest, sum);
  }
}

// Divides by the sums of the rows, times `scale`. Rows of −∞ alone: 0 ÷ 0, or 0; rows whose weights are NaN: NaN, or 0.
template <bool empty_is_zero, bool nan_is_zero, class Scores, bool with_statistics, class Product>
__device__ __forceinline__ void divide_by_sums(Product& product, AttentionRows<Scores, with_statistics>& rows,
                                               f32 scale = 1.f) {
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) {
#pragma unroll
    for (int lanes = 1; lanes < Scores::row_lanes; lanes *= 2)
      rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], lanes);
    if (empty_is_zero && rows.greatest[r] == -__int_as_float(0x7f800000)) rows.sum[r] = 1;
    rows.sum[r] = scale / rows.sum[r];
  }
#pragma unroll
  for (int s = 0; s < Product::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Product::strip_results; ++i) {
      const f32 share = rows.sum[Product::own_row(s, i)];
      f32& result = product.result(s, i);
      result = nan_is_zero && !(share < __int_as_float(0x7f800000)) ? 0.f : result * share;
    }
  }
}

// Blocks that share the keys of a tile of rows leave their results in scratch, with maxima and sums; the last to arrive
// joins them in the order of the blocks. `part`: this block's number of `parts`.
template <int threads, class Logits, class Scores, class Product, bool with_statistics = false>
struct AttentionParts {
  using Exponential = Exponentials<Logits>;
  using Rows = AttentionRows<Scores, with_statistics>;
  static constexpr int results = Product::strips * Product::strip_results;
  static constexpr int own_greatest = results + 2 * Scores::own_rows;
  static constexpr int count = own_greatest + (with_statistics ? Scores::own_rows : 0);

  __device__ static __forceinline__ void leave(Product& product, const Rows& rows, f32* scratch, s64 tile, int parts,
                                               int part) {
    f32* const own = scratch + (tile * parts + part) * count * threads + threadIdx.x;
#pragma unroll
    for (int i = 0; i < results; ++i)
      own[i * threads] = product.result(i / Product::strip_results, i % Product::strip_results);
#pragma unroll
    for (int r = 0; r < Scores::own_rows; ++r) {
      own[(results + 2 * r) * threads] = rows.greatest[r];
      own[(results + 2 * r + 1) * threads] = rows.sum[r];
      if constexpr (with_statistics) own[(own_greatest + r) * threads] = rows.own_greatest[r];
    }
  }

  __device__ static __forceinline__ void join(Product& product, Rows& rows, const f32* scratch, s64 tile, int parts) {
    rows = Rows();
#pragma unroll
    for (int i = 0; i < results; ++i) product.result(i / Product::strip_results, i % Product::strip_results) = 0;
    for (int part = 0; part < parts; ++part) {
      const f32* const from = scratch + (tile * parts + part) * count * threads + threadIdx.x;
      const auto read = [&](int i) { return load_one<Cached::shared_between_blocks>(from + i * threads); };
      f32 before[Scores::own_rows], after[Scores::own_rows];
#pragma unroll
      for (int r = 0; r < Scores::own_rows; ++r) {
        const f32 greatest = read(results + 2 * r), most = fmaxf(rows.greatest[r], greatest);
        before[r] = Exponential::of_greatest(rows.greatest[r], Exponential::base_of(most));
        after[r] = Exponential::of_greatest(greatest, Exponential::base_of(most));
        rows.sum[r] = rows.sum[r] * before[r] + read(results + 2 * r + 1) * after[r];
        rows.greatest[r] = most;
        if constexpr (with_statistics) rows.own_greatest[r] = fmaxf(rows.own_greatest[r], read(own_greatest + r));
      }
#pragma unroll
      for (int i = 0; i < results; ++i) {
        f32& sum = product.result(i / Product::strip_results, i % Product::strip_results);
        const int r = Product::own_row(i / Product::strip_results, i % Product::strip_results);
        sum = sum * before[r] + read(i) * after[r];
      }
    }
  }
};

}  // namespace stitch
