#pragma once

#include <string>

#include "kernel/contraction/contraction_schedule.h"

// Operands whose rows are not aligned to 16 bytes: odd extents of 16 bits, an odd offset into a buffer. Of
// f16[2047,2051] a row begins at any even byte of a word of 16 bytes, another one for each row:
//
//     words of memory   |............abcd|efghijklmnopqrst|uvwx............|
//     copies of 2 bytes              ↓ ↓  ↓ ↓ …                                a load and a store for each element
//     realigned                      |abcdefghijklmnop|qrstuvwx00000000|        two words for each 16 bytes, shifted
//
// Threads ask for the two words that cover 16 bytes of a tile where its copy would stand, hold them while others are
// multiplied, and shift them by where the row begins when they store them (as computed operands, computed_operand.h).
// A row of a convolution's window is such a line, too, of which 16 bytes of a tile may have the end, and the begin of
// the next one (of 7 × 3 features 21 elements): then each of both parts is made of two words. What lies behind a row's
// end, or under a window's edge, becomes zero; no word is asked for that has nothing of the row, and of a tensor's last
// word no byte behind the tensor.

namespace stitch::kernel {

inline constexpr int realigned_bytes = 16;
/// 4-byte registers of the two words.
inline constexpr int realigned_words = 8;

inline bool holds_realigned(const ContractionSchedule& s) { return s.left_realigned || s.right_realigned; }
inline bool is_realigned(const ContractionSchedule& s, bool left) {
  return left ? s.left_realigned : s.right_realigned;
}

/// Why an operand's tiles cannot be realigned, or need not be; empty: they can.
std::string unlike_realigned(const ContractionProblem& problem, const ContractionSchedule& schedule, bool left);
/// The same schedule with copies realigned that can be, of the left operand, the right one, or both; which are so then.
ContractionSchedule realigned(const ContractionProblem& problem, ContractionSchedule schedule, bool left, bool right);
/// That a thread holds of those of the tiles that are, of so many bytes each.
int realigned_registers(const ContractionProblem& problem, const ContractionSchedule& schedule, std::int64_t left_bytes,
                        std::int64_t right_bytes, int threads);

/// Elements of a line of which a run of 16 bytes may have the end and another one the begin, or of which it has an
/// edge: of a window's rows, or of what goes on elsewhere. 0: runs are whole, but for the last one of all.
std::int64_t parted_line(const ContractionOperand& operand);
/// Bytes that places in an operand which are realigned are multiples of.
int realigned_unit(const ContractionOperand& operand);
/// How a window's dimension limits such a line: all of it, or from some place of it up to another.
enum class LineLimit : std::uint8_t { all, places, unlike };
LineLimit line_limit(const WindowDimension& window, std::int64_t line);

/// Of an operand that can be: whether the element of the last row and depth of a tile is the tile's last in memory.
bool rises(const ContractionOperand& operand);

}  // namespace stitch::kernel
