// Functions that the emulated driver does not have. They take whatever they are given, which the calling convention of
// the platforms that have CUDA allows, and answer as a driver does that cannot do what is asked of it.
#include "driver/api/unsupported.h"

extern "C" {
#define STITCH_UNSUPPORTED(name) \
  int name();                    \
  int name() { return stitch::driver::refuse_unsupported(#name); }
#include "driver/api/unsupported.inl"
#undef STITCH_UNSUPPORTED
}
