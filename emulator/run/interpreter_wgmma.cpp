#include <algorithm>
#include <optional>

#include "emulator/run/interpreter.h"
#include "emulator/run/matrix_element.h"
#include "emulator/run/sparse_matrix.h"

namespace stitch::emulator {
namespace {

/// A shared-memory matrix descriptor of wgmma (PTX ISA, "matrix descriptor"), in bytes.
struct TileDescriptor {
  std::uint32_t start = 0;
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t swizzle_bytes = 0;  ///< 0 (none), 32, 64 or 128

  explicit TileDescriptor(std::uint64_t bits)
      : start((bits & 0x3FFF) << 4), leading((bits >> 16 & 0x3FFF) << 4), stride((bits >> 32 & 0x3FFF) << 4) {
    constexpr std::uint32_t modes[] = {0, 128, 64, 32};
    swizzle_bytes = modes[bits >> 62];
  }

  /// Shared address of byte `k` of row `row` of an operand whose rows are M or N; where M or N is contiguous instead
  /// (16-bit elements only) of the first byte of element (row, k / 2). The canonical layouts are those of CUTLASS
  /// (cute/arch/mma_sm90_desc.hpp): 8 × 16-byte core matrices, `leading` and `stride` apart; with a swizzle, rows of
  /// that many bytes whose 16-byte pieces are exchanged by the row number.
  [[nodiscard]] std::uint32_t address(std::uint32_t row, std::uint32_t k, bool row_major_in_memory) const {
    std::uint32_t at = 0;
    if (!row_major_in_memory) {
      // K is contiguous.
      if (swizzle_bytes == 0) {
        at = row / 8 * stride + row % 8 * 16 + k / 16 * leading + k % 16;
      } else {
        at = row / 8 * stride + row % 8 * swizzle_bytes + k;
      }
    } else {
      // M or N is contiguous.
      const std::uint32_t unit = row / 8;
      const std::uint32_t column = k / 2;
      if (swizzle_bytes == 0) {
        at = unit * stride + column % 8 * 16 + column / 8 * leading + row % 8 * 2;
      } else {
        const std::uint32_t units = swizzle_bytes / 16;
        at =
            unit / units * leading + unit % units * 16 + column % 8 * swizzle_bytes + column / 8 * stride + row % 8 * 2;
      }
    }
    at += start;
    switch (swizzle_bytes) {
      case 128: return at ^ ((at >> 7 & 7) << 4);
      case 64: return at ^ ((at >> 7 & 3) << 4);
      case 32: return at ^ ((at >> 7 & 1) << 4);
      default: return at;
    }
  }
};

}  // namespace

/// Checks that the operand may be read asynchronously, as accesses of the warp's first lane, and notes it as being
/// read.
void Interpreter::check_tile(std::uint64_t descriptor, bool transposed, std::uint32_t rows, std::uint32_t row_bytes) {
  const TileDescriptor tile(descriptor);
  SharedMemory& shared = block_->shared;
  const SharedAccessor who = shared_accessor(*block_, 0, false);
  bool unfenced = false;
  // The descriptor has no distance between pieces of a row that a swizzle does not cover.
  if (!transposed && tile.swizzle_bytes != 0 && tile.swizzle_bytes < row_bytes) {
    report(Detector::invalid_use, 0, [&] {
      return fmt::format("wgmma reads rows of {} bytes by a descriptor whose swizzle has {}", row_bytes,
                         tile.swizzle_bytes);
    });
    return;
  }
  for (std::uint32_t r = 0; r < rows; ++r) {
    // Runs of 16 bytes along the contiguous dimension: of a row's bytes, or of 8 rows' elements.
    if (transposed && r % 8 != 0) continue;
    for (std::uint32_t k = 0; k < row_bytes; k += transposed ? 2 : 16) {
      SharedTarget target;
      if (!shared_target(tile.address(r, k, transposed), 16, false, 0, target)) return;
      const SharedOutcome outcome = shared.read(target.offset, 16, who);
      if (outcome.fault != SharedFault::none) report_shared(outcome, 0, false);
      unfenced |= shared.written_since(target.offset, 16, block_->proxy_fence);
      shared.begin_async_read(target.offset, 16);
      warp_->product_reads.push_back({target.offset, 16, warp_->product_groups});
    }
  }
  if (!unfenced) return;
  report(Detector::missing_fence, 0,
         [] { return std::string("wgmma reads shared memory that was written without a fence.proxy.async since"); });
}

double Interpreter::tile_element(std::uint64_t descriptor, bool transposed, std::uint32_t row, std::uint32_t column,
                                 MatrixType type) {
  const std::uint32_t width = element_bits(type);
  const std::uint32_t address = TileDescriptor(descriptor).address(row, column * width / 8, transposed);
  const std::uint32_t bytes = std::max(width / 8, 1U);
  if (address < shared_base || !block_->shared.contains(address - shared_base, bytes)) return 0;
  std::uint32_t bits = 0;
  std::memcpy(&bits, block_->shared.data() + (address - shared_base), bytes);
  return element_value(type, width < 8 ? bits >> (column * width % 8) : bits);
}

/// wgmma.mma_async m64nN, k of 32 bytes (kept bytes, of a sparse A): the warp computes its 16 of the 64 rows; warps of
/// a group agree on everything else. list: accumulators, A's registers if it is not in shared memory, metadata; a, b =
/// descriptors; c = predicate: add to what is there. The result is in the registers at once, and guarded until the
/// wait.
Interpreter::Step Interpreter::wgmma(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (lanes != 0xFFFFFFFF) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("wgmma by lanes 0x{:08x} only", lanes); });
    return Step::next;
  }
  const MatrixForm& form = code_.matrices[in.detail];
  const bool half = form.accumulator == MatrixType::f16;
  const std::uint32_t d_count = half ? form.n / 4U : form.n / 2U;
  const std::uint32_t width = element_bits(form.a);
  const Slot* d_slots = code_.lists.data() + in.list;
  const std::uint64_t b_descriptor = row_of<std::uint64_t>(in.b)[0];
  const std::uint32_t row_base = warp_->index % 4 * 16;
  using Row = std::array<double, 256>;
  std::vector<Row> a(16);
  std::vector<Row> b(form.n);
  if (form.a_in_registers) {
    const std::uint32_t e = 32 / width;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t bits = row_of<std::uint32_t>(d_slots[d_count + i])[lane];
        double* to = a[lane / 4 + 8 * (i % 2)].data() + 4 * e * (i / 2) + lane % 4 * e;
        for (std::uint32_t j = 0; j < e; ++j) to[j] = element_value(form.a, bits >> (width * j));
      }
    }
  } else {
    const std::uint64_t a_descriptor = row_of<std::uint64_t>(in.a)[0];
    if (warp_->index % 4 == 0) check_tile(a_descriptor, form.transpose_a, 64, 32);
    for (std::uint32_t r = 0; r < 16; ++r) {
      for (std::uint32_t k = 0; k < form.stored_k(); ++k) {
        a[r][k] = tile_element(a_descriptor, form.transpose_a, row_base + r, k, form.a);
      }
    }
  }
  if (warp_->index % 4 == 0) check_tile(b_descriptor, form.transpose_b, form.n, form.sparse ? 64 : 32);
  for (std::uint32_t n = 0; n < form.n; ++n) {
    for (std::uint32_t k = 0; k < form.k; ++k) b[n][k] = tile_element(b_descriptor, form.transpose_b, n, k, form.b);
  }
  std::optional<KeptColumns> kept;
  if (form.sparse) kept.emplace(form, sparse_metadata(form, d_slots[d_count + (form.a_in_registers ? 4 : 0)]));
  const double sign = form.negate_a != form.negate_b ? -1.0 : 1.0;
  const std::uint32_t accumulate = mask_of(in.c);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < form.n / 2U; ++i) {
      // Accumulators come in groups of four per 8 columns: (row, col), (row, col + 1), (row + 8, …).
      const std::uint32_t r = lane / 4 + 8 * (i % 4 / 2);
      const std::uint32_t n = i / 4 * 8 + lane % 4 * 2 + i % 2;
      auto* slot = row_of<std::uint32_t>(d_slots[half ? i / 2 : i]);
      const std::uint32_t shift = half ? 16 * (i % 2) : 0;
      const double* column = kept ? kept->select(r, b[n].data()) : b[n].data();
      double sum = sign * add_products(form, a[r].data(), column, 0);
      if (((accumulate >> lane) & 1) != 0) sum += element_value(form.accumulator, slot[lane] >> shift);
      const auto bits = static_cast<std::uint32_t>(accumulator_bits(form, sum));
      slot[lane] = half ? (slot[lane] & ~(0xFFFFU << shift)) | bits << shift : bits;
    }
  }
  for (std::uint32_t i = 0; i < d_count; ++i) warp_->products.push_back({d_slots[i], warp_->product_groups, in.detail});
  return Step::next;
}

Interpreter::Step Interpreter::wgmma_fence(const Instruction&, std::uint32_t) { return Step::next; }

Interpreter::Step Interpreter::wgmma_commit(const Instruction&, std::uint32_t) {
  ++warp_->product_groups;
  return Step::next;
}

/// wgmma.wait_group immediate: all but the latest so many groups are complete.
Interpreter::Step Interpreter::wgmma_wait(const Instruction& in, std::uint32_t) {
  const std::uint32_t pending = std::min<std::uint64_t>(in.immediate, warp_->product_groups);
  const std::uint32_t complete = warp_->product_groups - pending;
  std::erase_if(warp_->products, [&](const Warp::InFlightRegister& product) { return product.group < complete; });
  std::erase_if(warp_->product_reads, [&](const Warp::SharedRange& range) {
    if (range.group >= complete) return false;
    block_->shared.end_async_read(range.offset, range.bytes);
    return true;
  });
  ++unit_->events;
  return Step::next;
}

}  // namespace stitch::emulator
