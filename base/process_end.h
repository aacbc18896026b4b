#pragma once

namespace stitch {

/// Ends this process at once, with what was printed flushed and nothing else done: handlers at exit of libraries that
/// were loaded may wait for what is lost. In builds that count executed lines (scripts/coverage) the counts are
/// written first.
[[noreturn]] void end_process(int code);

}  // namespace stitch
