#pragma once

#include <string>

#include "profiler/device/device.h"

/// Small kernels as PTX, good and bad, for any device. Parameters are 8 bytes each.
namespace stitch::profiler::test {

inline KernelImage ptx_kernel(const std::string& name, const std::string& parameters, const std::string& body) {
  return {name,
          ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry " + name + "(" + parameters + ")\n{\n" +
              ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %d<16>;\n" +
              "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.s32 %r4, %r1, %r2, %r3;\n" +
              body + "\nret;\n}\n",
          "", "sm_90"};
}

inline const std::string two_pointers = ".param .u64 from, .param .u64 to";

/// to[i] = from[i], 4 bytes a thread.
inline KernelImage copy_kernel() {
  return ptx_kernel("copy", two_pointers, R"(ld.param.u64 %d1, [from];
ld.param.u64 %d2, [to];
mul.wide.u32 %d3, %r4, 4;
add.s64 %d1, %d1, %d3;
add.s64 %d2, %d2, %d3;
ld.global.u32 %r5, [%d1];
st.global.u32 [%d2], %r5;)");
}

/// Copies, and writes one element too far: to[i + 1] = from[i].
inline KernelImage overrun_kernel() {
  KernelImage image = copy_kernel();
  image.name = "overrun";
  image.ptx.replace(image.ptx.find("entry copy"), 10, "entry overrun");
  image.ptx.replace(image.ptx.find("[%d2], %r5"), 10, "[%d2+4], %r5");
  return image;
}

/// Writes to an address that no buffer has: a fault on a GPU, a finding on the emulator.
inline KernelImage wild_kernel() {
  return ptx_kernel("wild", two_pointers, R"(mov.u64 %d1, 64;
st.global.u32 [%d1], %r4;)");
}

/// Counts for ever. What it writes keeps it from being seen through: no value comes back.
inline KernelImage endless_kernel() {
  return ptx_kernel("endless", two_pointers, R"(ld.param.u64 %d1, [to];
mul.wide.u32 %d2, %r4, 4;
add.s64 %d1, %d1, %d2;
mov.u32 %r5, 0;
again:
add.u32 %r5, %r5, 1;
st.volatile.global.u32 [%d1], %r5;
bra again;)");
}

}  // namespace stitch::profiler::test
