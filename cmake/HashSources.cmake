# cmake -DOUTPUT=FILE.cpp "-DSOURCES=a.cpp;b.h" -P HashSources.cmake
#
# Writes the definition of stitch::codegen::emitters_hash(): of the names and contents of the sources.
list(SORT SOURCES COMPARE FILE_BASENAME)
set(all "")
foreach(source IN LISTS SOURCES)
  get_filename_component(name ${source} NAME)
  file(SHA256 ${source} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")

file(WRITE ${OUTPUT} "// Made from the emitters' sources by cmake/HashSources.cmake.
#include \"codegen/generator_version.h\"

std::string_view stitch::codegen::emitters_hash() { return \"${hash}\"; }
")
