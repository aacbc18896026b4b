# cmake -DOUTPUT=batch.cpp "-DSOURCES=a_test.cpp;b_test.cpp" -DROOT=the repository -DPREFIX=before paths in messages -P BatchTests.cmake
#
# Writes tests' sources one after the other, to be compiled as one: their headers, and the templates of the same types,
# are compiled once for all of them. Each source's anonymous namespaces lie in a namespace of its name, so that tests may
# call what is theirs alike (`f32`, `rows`, `Case`). Messages name the sources and their lines.
set(batch "")
foreach(source IN LISTS SOURCES)
  file(READ ${source} text)
  file(RELATIVE_PATH path ${ROOT} ${source})
  string(MAKE_C_IDENTIFIER ${path} name)
  # clang-format writes both lines so.
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} { namespace {\n" text "${text}")
  string(REPLACE "\n}  // namespace\n" "\n} }\n" text "${text}")
  string(APPEND batch "#line 1 \"${PREFIX}${path}\"\n${text}\n")
endforeach()
file(WRITE ${OUTPUT} "${batch}")
