# stitch_layer(NAME LINKS targets...): the library of one top-level folder, from every *.cpp in it. Files named
# main.cpp or *_main.cpp are programs and are left to the folder's own CMakeLists.txt, which is read when it exists.
option(STITCH_BENCHMARKS "Build bench/" ON)
option(STITCH_WERROR "Treat warnings as errors" ON)
# Most of a first build is the same headers' templates, compiled again for every source: with several sources to a batch
# it takes a third. While working on a few files, single sources are quicker (the preset `dev`).
option(STITCH_UNITY "Compile the sources of a layer in batches" OFF)
set(STITCH_UNITY_BATCH 8)
# Their sources include little, and name the same things for themselves.
set(STITCH_SINGLE_SOURCES stitch_base stitch_driver search_test codegen_test emulator_test profiler_test daemon_test)
option(STITCH_COVERAGE "Count executed lines (scripts/coverage)" OFF)
set(STITCH_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# -O2 throughout; what is numerically heavy (the emulator, the evaluator) asks for -O3 in its own folder.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Clones in different folders and builds in different folders of one share what ccache holds (pip's build, too).
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

# One interface target carries what every translation unit is compiled with.
add_library(stitch_options INTERFACE)
target_include_directories(stitch_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(stitch_options INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual
  # In a batch a name of one source may hide that of another, and GCC inlines so much that its flow-based warnings
  # misfire; single sources (the preset dev) have both.
  $<IF:$<BOOL:${STITCH_UNITY}>,-Wno-maybe-uninitialized,-Wshadow>
  # GCC 12 reports overlapping copies inside its own std::string (PR 105651).
  -Wno-restrict $<$<BOOL:${STITCH_WERROR}>:-Werror>)
if(STITCH_COVERAGE)
  # Programs that tests kill count until then: what they ran is told by those that end by themselves.
  target_compile_options(stitch_options INTERFACE --coverage -fprofile-update=atomic -O1)
  target_link_options(stitch_options INTERFACE --coverage)
endif()
if(STITCH_SANITIZE)
  target_compile_options(stitch_options INTERFACE -fsanitize=${STITCH_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(stitch_options INTERFACE -fsanitize=${STITCH_SANITIZE})
  # GCC's flow-based warnings misfire on instrumented code, and Asio's fences, which ThreadSanitizer does not see, have
  # atomics beside them that it does.
  target_compile_options(stitch_options INTERFACE -Wno-maybe-uninitialized -Wno-tsan)
endif()

# Batches of one target's sources, where the build has any. Sources with flags of their own are left alone by CMake.
function(stitch_batches target)
  if(STITCH_UNITY AND NOT target IN_LIST STITCH_SINGLE_SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${STITCH_UNITY_BATCH})
  endif()
endfunction()

# The batches of tests: stitch_test_batches(RESULT NAME sources...) puts their paths, or the sources where the build has
# none, into RESULT. A batch is a file made anew when one of its sources changes.
function(stitch_test_batches result name)
  if(NOT STITCH_UNITY)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(sources ${ARGN})
  list(SORT sources)
  set(prefix "")  # as ccache wants it: the same in every clone
  if(STITCH_COVERAGE)
    set(prefix ${CMAKE_SOURCE_DIR}/)
  endif()
  set(script ${CMAKE_SOURCE_DIR}/cmake/BatchTests.cmake)
  set(batches "")
  set(number 0)
  list(LENGTH sources count)
  while(number LESS count)
    list(SUBLIST sources ${number} ${STITCH_UNITY_BATCH} members)
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${number}.cpp)
    add_custom_command(OUTPUT ${batch}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${batch} "-DSOURCES=${members}" -DROOT=${CMAKE_SOURCE_DIR} -DPREFIX=${prefix}
        -P ${script}
      DEPENDS ${members} ${script} COMMENT "Batching tests of ${name}" VERBATIM)
    list(APPEND batches ${batch})
    math(EXPR number "${number} + ${STITCH_UNITY_BATCH}")
  endwhile()
  set(${result} ${batches} PARENT_SCOPE)
endfunction()

function(stitch_layer name)
  cmake_parse_arguments(LAYER "" "" "LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(^|/|_)main\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/examples/")
  if(NOT sources)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY STITCH_LAYERS ${name})
  add_library(stitch_${name} STATIC ${sources})
  add_library(stitch::${name} ALIAS stitch_${name})
  target_link_libraries(stitch_${name} PUBLIC ${LAYER_LINKS} PRIVATE stitch_options)
  target_include_directories(stitch_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  stitch_batches(stitch_${name})
  if(EXISTS ${CMAKE_SOURCE_DIR}/${name}/CMakeLists.txt)
    add_subdirectory(${CMAKE_SOURCE_DIR}/${name})
  endif()
endfunction()
