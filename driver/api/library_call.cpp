// Calls of the libraries that come with the driver.
#include "driver/api/entry.h"
#include "driver/state/library_work.h"

using namespace stitch::driver;

CUresult stitch_emulated_library_call(CUstream handle, const LibraryWork& work) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    return call.issue(stream, work);
  });
}
