#pragma once

#include "codegen/contraction/contraction_text.h"

// What kernels of a sum of products (kernel/contraction/summed_contraction.h) print: operands that have all terms'
// elements (alike_operands.h), and whose a tile of the contracted dimension is. The loop is that of one product.
//
//     const auto copy_left = [&](unsigned char* to, int k) {
//       const int depth_tile = k / 32;
//       const int term = (depth_tile >= 24 ? 1 : 0);
//       const Left left = {term == 0 ? in0 + (…) : in2 + (…), 512};
//       copy_tile<LeftTile, 128>(to, left, block_row, (depth_tile - (term == 0 ? 0 : 24)) * 32);
//     };
namespace stitch::codegen {

/// The structure `Left` or `Right`, and that of its tiles.
void print_operand_of_terms(Writer& out, const kernel::ContractionProblem& problem, bool left, const TileText& tile);

/// The functions `copy_left` and `copy_right`, which ask for the tile that begins at a place of the contracted
/// dimension, all terms' tiles one after another.
void print_copies_of_terms(Writer& out, const kernel::ContractionProblem& problem,
                           const kernel::ContractionSchedule& schedule, int threads);

/// Prints which term the tile number `number` of the contracted dimension is of, `term`, and which tile of it that is,
/// `depth_tile`; all threads of a block find the same.
void print_term_of_tile(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule, std::string_view number);

/// Whether every term is whole tiles, and every block has as many of them.
bool has_whole_depth(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule);

}  // namespace stitch::codegen
