// The functions that end in _ptsz and _ptds: their null stream is the calling thread's own.
#include <cuda.h>

#include "driver/api/entry.h"

using stitch::driver::PerThread;

extern "C" {
#include "driver/api/per_thread.inl"
}
