#include <algorithm>
#include <vector>

#include "emulator/run/interpreter.h"
#include "emulator/run/matrix_element.h"
#include "emulator/run/sparse_matrix.h"
#include "emulator/run/tmem_use.h"

namespace stitch::emulator {
namespace {

/// Element `index` of a row whose 16-byte units hold 16 elements each, packed from the unit's beginning whatever their
/// width is (PTX ISA, "Packing format used for matrix A and B by .kind::mxf8f6f4 in Shared Memory").
std::uint32_t packed_bits(const std::byte* unit, std::uint32_t index, std::uint32_t width) {
  std::uint32_t word = 0;
  const std::uint32_t at = index * width;
  std::memcpy(&word, unit + at / 8, at / 8 + 2 <= 16 ? 2 : 1);
  return word >> (at % 8) & ((1U << width) - 1);
}

}  // namespace

/// One tcgen05.mma under way: what its descriptors say, and its matrices as numbers.
struct Interpreter::TensorProduct {
  const TensorCoreForm& form;
  const ProductDescriptor shape;
  std::uint32_t lane;  ///< the issuing thread
  TmemUse use;
  TmemPlace d;
  /// [block × path × row][k]: A as each path reads it.
  std::vector<std::vector<double>> a;
  std::vector<std::vector<double>> b;         ///< [n][k]
  std::vector<std::vector<double>> scaled_b;  ///< as the block's scales have it

  /// Of a sparse A: which column of the whole row each stored element has; as `a`.
  std::vector<std::vector<std::uint16_t>> kept;

  std::vector<double> selected;

  /// What of a column of B the stored elements of row `row` of `a` are multiplied by. Valid until the next call.
  const double* partners(std::size_t row, const std::vector<double>& column) {
    if (kept.empty()) return column.data();
    selected.resize(kept[row].size());
    for (std::size_t k = 0; k < selected.size(); ++k) selected[k] = column[kept[row][k]];
    return selected.data();
  }
  [[nodiscard]] std::size_t row_index(std::uint32_t part, std::uint32_t path, std::uint32_t row) const {
    return (part * shape.paths + path) * shape.block_rows() + row;
  }
  [[nodiscard]] std::vector<double>& a_row(std::uint32_t part, std::uint32_t path, std::uint32_t row) {
    return a[row_index(part, path, row)];
  }
};

/// A tile's pieces as reads by the tensor core on behalf of the running warp.
void Interpreter::read_tile_for_tensor_core(Block& block, const TileDescriptor& tile, bool transposed,
                                            std::uint32_t rows, std::uint32_t k_count, std::uint32_t width,
                                            std::uint32_t lane) {
  SharedAccessor who = shared_accessor(block, lane, false);
  who.agent = unit_->clock->tensor_agent(warp_->agent);
  who.detached = true;
  bool unfenced = false;
  bool inside = true;
  tile.for_each_piece(rows, k_count, width, transposed, [&](std::uint32_t address) {
    if (address < shared_base || !block.shared.contains(address - shared_base, 16)) {
      SharedTarget target;
      inside = shared_target(address, 16, false, lane, target);
      return false;
    }
    const std::uint32_t offset = address - shared_base;
    const SharedOutcome outcome = block.shared.read(offset, 16, who);
    if (outcome.fault != SharedFault::none) report_shared(outcome, lane, false);
    unfenced |= block.shared.written_since(offset, 16, block.proxy_fence);
    return true;
  });
  if (!unfenced || !inside) return;
  report(Detector::missing_fence, lane,
         [] { return std::string("tcgen05 reads shared memory that was written without a fence.proxy.async since"); });
}

/// a = A's descriptor or address, b = B's descriptor, c = predicate: add to what is there, e = D's address, list:
/// instruction descriptor, address of metadata (sparse), disabled lanes or addresses of A's and B's scales; immediate =
/// scale-input-d. Each thread that executes it has a product formed; D holds the result at once, and is guarded until
/// somebody who may know of its completion reads it.
Interpreter::Step Interpreter::tmem_product(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0 && check_pairing(code_.tensor_cores[in.detail], lane)) multiply(in, lane);
  }
  ++unit_->events;
  return Step::next;
}

void Interpreter::multiply(const Instruction& in, std::uint32_t lane) {
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  const Slot* list = code_.lists.data() + in.list;
  TensorProduct product{.form = form,
                        .shape = ProductDescriptor(row_of<std::uint32_t>(list[0])[lane], form),
                        .lane = lane,
                        .use = TmemUse(TensorAccess::core, "tcgen05.mma", unit_->clock->now()),
                        .d = {},
                        .a = {},
                        .b = {},
                        .scaled_b = {},
                        .kept = {},
                        .selected = {}};
  const ProductDescriptor& shape = product.shape;
  if (shape.mistake != nullptr) {
    report(Detector::invalid_use, lane, [&] {
      return fmt::format("tcgen05.mma has an instruction descriptor 0x{:08x} that means nothing: {}",
                         row_of<std::uint32_t>(list[0])[lane], shape.mistake);
    });
    return;
  }
  const char* refused = shape.refused;
  if (form.a_in_tmem && shape.container_bits == 8 && (element_bits(shape.matrix.a) < 8)) {
    refused = "tcgen05.mma with 4- or 6-bit elements in tensor memory (their place in a byte is said in figures only)";
  }
  if (refused != nullptr) {
    context_.refused = refused;
    context_.stop = true;
    return;
  }
  const auto d_address = static_cast<std::uint32_t>(row_of<std::uint64_t>(in.e)[lane]);
  product.d = {d_address >> 16, d_address & 0xFFFF};
  if (product.d.lane != 0 && !(shape.half_lanes && product.d.lane == 16)) {
    report(Detector::invalid_use, lane, [&] {
      return fmt::format("tcgen05.mma whose D begins at lane {} of tensor memory, not at 0{}", product.d.lane,
                         shape.half_lanes ? " or 16" : "");
    });
    return;
  }
  unit_->clock->begin_tensor_work(warp_->agent);
  if (form.blocks == 2) note_remote(*unit_->blocks[block_->rank ^ 1]);
  if (!read_a(in, product) || !read_b(in, product)) return;
  if (form.sparse) read_metadata(in, product);
  accumulate(in, product);
  report_tmem(product.use, lane);
  unit_->clock->advance();
}

/// An element of A or B in shared memory.
double Interpreter::product_element(Block& block, const TileDescriptor& tile, bool transposed, std::uint32_t row,
                                    std::uint32_t k, MatrixType type, std::uint32_t container) {
  if (element_bits(type) >= container) return tile_element(block, tile, transposed, row, k, type);
  const std::uint32_t address = tile.address(row, k / 16 * 16, container, transposed);
  if (address < shared_base || !block.shared.contains(address - shared_base, 16)) return 0;
  return element_value(type, packed_bits(block.shared.data() + (address - shared_base), k % 16, element_bits(type)));
}

bool Interpreter::read_a(const Instruction& in, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const std::uint32_t rows = shape.block_rows();
  const std::uint32_t depth = shape.matrix.stored_k();
  const std::uint64_t operand = row_of<std::uint64_t>(in.a)[product.lane];
  product.a.assign(std::size_t{shape.blocks} * shape.paths * rows, std::vector<double>(depth));
  const TileDescriptor tile = TileDescriptor::of_tensor_core(operand);
  if (!product.form.a_in_tmem &&
      !check_product_tile(tile, shape.matrix.transpose_a, depth, shape.container_bits, "A", product.lane)) {
    return false;
  }
  for (std::uint32_t part = 0; part < shape.blocks; ++part) {
    Block& block = pair_block(shape.blocks, part);
    if (product.form.a_in_tmem) {
      read_a_from_tmem(block, part, static_cast<std::uint32_t>(operand), product);
      continue;
    }
    read_tile_for_tensor_core(block, tile, shape.matrix.transpose_a, rows, depth, shape.container_bits, product.lane);
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::vector<double>& row = product.a_row(part, 0, r);
      for (std::uint32_t k = 0; k < depth; ++k) {
        row[k] = product_element(block, tile, shape.matrix.transpose_a, r, k, shape.matrix.a, shape.container_bits);
      }
      for (std::uint32_t path = 1; path < shape.paths; ++path) product.a_row(part, path, r) = row;
    }
  }
  return true;
}

/// A's rows lie in the lanes of the rows of D, once for each path; elements are packed from column to column.
void Interpreter::read_a_from_tmem(Block& block, std::uint32_t part, std::uint32_t address, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const std::uint32_t per_word = 32 / shape.container_bits;
  const TmemPlace base{address >> 16, address & 0xFFFF};
  for (std::uint32_t path = 0; path < shape.paths; ++path) {
    for (std::uint32_t r = 0; r < shape.block_rows(); ++r) {
      std::vector<double>& row = product.a_row(part, path, r);
      for (std::uint32_t k = 0; k < row.size(); ++k) {
        const TmemPlace at{base.lane + shape.lane_of(r, path), base.column + k / per_word};
        const std::uint32_t word = read_tmem(product.use, block, at, k % per_word == 0);
        row[k] = element_value(shape.matrix.a, word >> (k % per_word * shape.container_bits));
      }
    }
  }
}

/// A word that the tensor core reads; `noted`: as an access (it was not before).
std::uint32_t Interpreter::read_tmem(TmemUse& use, Block& block, TmemPlace at, bool noted) {
  if (noted) touch_tmem(use, block, at, false);
  if (at.lane >= TensorMemory::lanes || !block.tensor.is_taken(at.column)) return 0;
  if (!block.tensor.is_written(at.lane, at.column) && !use.unwritten) use.unwritten = at;
  return block.tensor.read(at.lane, at.column);
}

/// Whether the tile's descriptor can be followed, for rows of `depth` elements of `width` bits; false after a finding.
bool Interpreter::check_product_tile(const TileDescriptor& tile, bool transposed, std::uint32_t depth,
                                     std::uint32_t width, std::string_view name, std::uint32_t lane) {
  // 32-bit elements lie along M or N only in pieces of 32 bytes, others never (PTX ISA, "Valid Combinations").
  const bool pieces_fit = !transposed || (tile.swizzle_piece == 32) == (width == 32);
  if (tile.is_valid && pieces_fit && tile.covers(depth * width / 8, transposed)) return true;
  report(Detector::invalid_use, lane, [&] {
    return fmt::format("tcgen05 has a descriptor of {} that {}", name,
                       !tile.is_valid
                           ? "means nothing (bits 46 to 48 are 0b001, 49 to 52 zero; a swizzle that is known)"
                           : "has a swizzle that its elements or its direction do not allow");
  });
  return false;
}

bool Interpreter::read_b(const Instruction& in, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const std::uint32_t columns = shape.matrix.n / shape.blocks;
  const std::uint32_t depth = shape.matrix.k;
  const TileDescriptor tile = TileDescriptor::of_tensor_core(row_of<std::uint64_t>(in.b)[product.lane]);
  if (!check_product_tile(tile, shape.matrix.transpose_b, depth, shape.container_bits, "B", product.lane)) return false;
  product.b.assign(shape.matrix.n, std::vector<double>(depth));
  for (std::uint32_t part = 0; part < shape.blocks; ++part) {
    Block& block = pair_block(shape.blocks, part);
    read_tile_for_tensor_core(block, tile, shape.matrix.transpose_b, columns, depth, shape.container_bits,
                              product.lane);
    for (std::uint32_t n = 0; n < columns; ++n) {
      std::vector<double>& column = product.b[part * columns + n];
      for (std::uint32_t k = 0; k < depth; ++k) {
        column[k] = product_element(block, tile, shape.matrix.transpose_b, n, k, shape.matrix.b, shape.container_bits);
      }
    }
  }
  return true;
}

/// The columns that a sparse A's stored elements have; what the ISA gives no meaning is reported, at its first chunk.
void Interpreter::read_metadata(const Instruction& in, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const auto address = static_cast<std::uint32_t>(row_of<std::uint64_t>(code_.lists[in.list + 1])[product.lane]);
  const TmemPlace base{address >> 16, address & 0xFFFF};
  const std::uint32_t stored = shape.sparse_width / 2;
  bool reported = false;
  product.kept.assign(product.a.size(), std::vector<std::uint16_t>(shape.matrix.stored_k()));
  for (std::size_t at = 0; at < product.kept.size(); ++at) {
    const std::uint32_t row = at % shape.block_rows();
    const std::uint32_t path = at / shape.block_rows() % shape.paths;
    Block& block = pair_block(shape.blocks, at / shape.block_rows() / shape.paths);
    for (std::uint32_t k = 0; k < shape.matrix.stored_k(); ++k) {
      const std::uint32_t chunk = k / stored;
      const ProductDescriptor::MetadataPlace place = shape.metadata_of(row, chunk, path);
      const TmemPlace word{base.lane + place.word.lane, base.column + place.word.column};
      const std::uint32_t bits = read_tmem(product.use, block, word, k % stored == 0) >> place.bit & 15;
      product.kept[at][k] =
          static_cast<std::uint16_t>(chunk * shape.sparse_width + kept_place(shape.sparse_width, bits, k % stored));
      // Of the descending pairs the ISA allows one.
      if (reported || is_meaningful(shape.matrix, bits) || (shape.sparse_width != 2 && bits == 0b0110)) continue;
      reported = true;
      report(Detector::invalid_use, product.lane, [&] {
        return fmt::format("sparsity metadata 0b{:04b} of row {}, chunk {} mean nothing", bits, row, chunk);
      });
    }
  }
}

/// D's new elements. Of 16-bit ones a word holds one, in its lower half.
void Interpreter::accumulate(const Instruction& in, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const MatrixForm& matrix = shape.matrix;
  const Slot* list = code_.lists.data() + in.list;
  const bool adds = ((mask_of(in.c) >> product.lane) & 1) != 0;
  const double kept = std::ldexp(1.0, -static_cast<int>(in.immediate));
  const double sign = matrix.negate_a != matrix.negate_b ? -1.0 : 1.0;
  const auto is_disabled = [&](std::uint32_t part, std::uint32_t lane) {
    if (product.form.disable_words == 0) return false;
    const Slot word = list[(product.form.sparse ? 2 : 1) + part * 4 + lane / 32];
    return ((row_of<std::uint32_t>(word)[product.lane] >> (lane % 32)) & 1) != 0;
  };
  for (std::uint32_t part = 0; part < shape.blocks; ++part) {
    Block& block = pair_block(shape.blocks, part);
    if (scales_blocks(product.form.kind)) scale_blocks(in, part, product);
    const std::vector<std::vector<double>>& b = scales_blocks(product.form.kind) ? product.scaled_b : product.b;
    for (std::uint32_t r = 0; r < shape.block_rows(); ++r) {
      for (std::uint32_t n = 0; n < matrix.n; ++n) {
        const TmemPlace place = shape.place_of(r, n);
        const TmemPlace at{product.d.lane + place.lane, product.d.column + place.column};
        if (is_disabled(part, at.lane)) continue;
        if (r % 16 == 0 || product.form.disable_words != 0) touch_tmem(product.use, block, at, true);
        if (!block.tensor.is_taken(at.column)) continue;
        const std::size_t row = product.row_index(part, n / shape.path_columns(), r);
        double sum = sign * add_products(matrix, product.a[row].data(), product.partners(row, b[n]), 0);
        if (adds) {
          const std::uint32_t old = read_tmem(product.use, block, at, false);
          sum += kept * element_value(matrix.accumulator, old);
        }
        block.tensor.write(at.lane, at.column, static_cast<std::uint32_t>(accumulator_bits(matrix, sum)));
      }
    }
  }
}

/// Multiplies A's rows of a block, and for it B's columns, by their scales. Scales lie in the lanes of a row modulo 32,
/// four bytes to a column, the next 32 rows in the next column; every 32 lanes hold all of them (UMMA::tmem_sf_frg of
/// CUTLASS's cute/atom/mma_traits_sm100.hpp). Where N is parted, the scales of a part lie in its lanes.
void Interpreter::scale_blocks(const Instruction& in, std::uint32_t part, TensorProduct& product) {
  const ProductDescriptor& shape = product.shape;
  const Slot* list = code_.lists.data() + in.list;
  Block& block = pair_block(shape.blocks, part);
  const std::uint32_t chunk = shape.matrix.k / product.form.scales;
  const std::uint32_t first = product.form.sparse ? 2 : 1;
  const auto apply = [&](std::vector<double>& values, Slot at, std::uint32_t row, std::uint32_t lane,
                         std::uint32_t byte, const std::vector<std::uint16_t>* kept) {
    const auto address = static_cast<std::uint32_t>(row_of<std::uint64_t>(at)[product.lane]);
    const std::uint32_t word = read_tmem(product.use, block, {lane, (address & 0xFFFF) + row / 32}, true);
    for (std::uint32_t k = 0; k < values.size(); ++k) {
      const std::uint32_t column = kept == nullptr ? k : (*kept)[k];
      values[k] *= block_scale(word >> (8 * (byte + column / chunk)), shape.e8m0_scales);
    }
  };
  for (std::uint32_t path = 0; path < shape.paths; ++path) {
    for (std::uint32_t r = 0; r < shape.block_rows(); ++r) {
      const std::vector<std::uint16_t>* kept =
          product.form.sparse ? &product.kept[product.row_index(part, path, r)] : nullptr;
      apply(product.a_row(part, path, r), list[first], r, shape.lane_of(r, path) / 32 * 32 + r % 32, shape.a_scale_byte,
            kept);
    }
  }
  product.scaled_b = product.b;
  for (std::uint32_t n = 0; n < shape.matrix.n; ++n) {
    const std::uint32_t path = n / shape.path_columns();
    const std::uint32_t within = n % shape.path_columns();
    apply(product.scaled_b[n], list[first + 1], within, path * (128 / shape.paths) + within % 32, shape.b_scale_byte,
          nullptr);
  }
}

}  // namespace stitch::emulator
