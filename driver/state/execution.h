#pragma once

#include "driver/state/driver.h"

namespace stitch::driver {

/// Does what a work says, now, on the engine's thread: launches a kernel on the emulator, copies, fills, calls the
/// host. What it finds goes to the log; a fault of a kernel loses the context, which skips whatever comes after.
void execute(Driver& driver, CUctx_st& context, const Work& work, const Actor& who);

/// Whether a wait for a word of memory is over.
bool is_fulfilled(Driver& driver, const CUstreamBatchMemOpParams& word);

}  // namespace stitch::driver
