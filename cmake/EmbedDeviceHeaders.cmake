# cmake -DOUTPUT=FILE.cpp "-DHEADERS=a.cuh;b.cuh" -P EmbedDeviceHeaders.cmake
#
# Writes the definition of stitch::codegen::device_headers(): every header as an array of characters (no string
# literal, whose length compilers bound), followed by a zero byte.
list(SORT HEADERS)
set(arrays "")
set(rows "")
set(index 0)
foreach(header IN LISTS HEADERS)
  get_filename_component(name ${header} NAME)
  file(READ ${header} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," characters "${hex}")
  # Lines of 16, for those who look into the file.
  set(one "'.x..',")
  string(REGEX REPLACE "(${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one}${one})"
    "\\1\n    " characters "${characters}")
  string(APPEND arrays "constexpr char header_${index}[] = {  // ${name}\n    ${characters}'\\0'};\n")
  string(APPEND rows "    {\"stitch/${name}\", {header_${index}, ${bytes}}},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made from codegen/device/*.cuh by cmake/EmbedDeviceHeaders.cmake.
#include \"codegen/device_headers.h\"

#include <array>

namespace stitch::codegen {
namespace {

${arrays}
constexpr std::array<DeviceHeader, ${index}> headers = {{
${rows}}};

}  // namespace

std::span<const DeviceHeader> device_headers() { return headers; }

Hash128 device_headers_hash() {
  static const Hash128 hash = [] {
    Hasher hasher;
    hasher.integer(headers.size());
    for (const DeviceHeader& header : headers) hasher.text(header.name).text(header.contents);
    return hasher.finish();
  }();
  return hash;
}

}  // namespace stitch::codegen
")
