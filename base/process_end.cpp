#include "base/process_end.h"

#include <unistd.h>

#include <cstdio>

#ifdef STITCH_COVERAGE
extern "C" void __gcov_dump();
#endif

namespace stitch {

void end_process(int code) {
  std::fflush(nullptr);
#ifdef STITCH_COVERAGE
  __gcov_dump();
#endif
  ::_exit(code);
}

}  // namespace stitch
