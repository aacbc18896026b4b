#pragma once

namespace stitch {

/// For a child's main: ends this process when its parent has gone. `input` is the pipe that the parent holds; its
/// closing shows the parent's death, and what came before gets `grace_seconds` to be worked on; the exit code is then
/// `code`. Where the parent asked for it (ProcessOptions::ends_with_us), the kernel kills this process at once, too,
/// whatever it does. Starts a thread.
void end_with_parent(int input, double grace_seconds, int code);

/// The kernel's part of it alone, which also holds for a program that takes this one's place.
void die_with_parent(int code);

/// The environment variable in which a parent that asks for it says its process id.
inline constexpr const char* parent_variable = "STITCH_PARENT";

}  // namespace stitch
