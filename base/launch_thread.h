#pragma once

#include <functional>

namespace stitch {

/// Runs `work` on a thread that lives as long as the program, and waits for it. The kernel tells a child that asks for
/// it of the death of the thread that started it, not of its process.
int on_launch_thread(const std::function<int()>& work);

}  // namespace stitch
