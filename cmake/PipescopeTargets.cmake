# How the project's own targets are made: one library per folder, tests that are found by CTest.

# Headers of torch, Qt and GoogleTest take most of the time of a file that includes them. A build from nothing reads them
# once for 32 files of a target; a build to work in compiles each file alone, so that a change costs one file.
option(PIPESCOPE_UNITY "Compile 32 files of a target at a time: quickest for a build from nothing" OFF)

function(pipescope_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PIPESCOPE_UNITY} UNITY_BUILD_BATCH_SIZE 32)
  if(PIPESCOPE_UNITY)
    # A private class may hold what is in its file's anonymous namespace; GCC takes the included file for a header.
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

# For code that wires and prints, and compiles longer than it runs: optimised as little as keeps its templates small.
function(pipescope_compile_quickly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
  endforeach()
endfunction()

# pipescope_library(<name> SOURCES .. [PUBLIC ..] [PRIVATE ..]) makes pipescope_<name>, alias pipescope::<name>.
function(pipescope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(pipescope_${name} STATIC ${ARG_SOURCES})
  add_library(pipescope::${name} ALIAS pipescope_${name})
  target_link_libraries(pipescope_${name}
    PUBLIC "$<BUILD_INTERFACE:pipescope_compiler>" ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  pipescope_unity(pipescope_${name})
endfunction()

# For targets that use LibTorch. There is no precompiled header: reading torch's back costs GCC 10 s a file, more than a
# file takes in all that includes only the torch headers it needs.
function(pipescope_use_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::torch)
endfunction()

# pipescope_test(<name> SOURCES .. LIBRARIES .. [TORCH] [TIMEOUT s]) makes the GoogleTest program <name>; every case is
# a CTest of its own, under a time limit.
function(pipescope_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE pipescope_compiler ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  if(ARG_TORCH)
    pipescope_use_torch(${name})
    pipescope_unity(${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
if(PIPESCOPE_TESTS)
  include(GoogleTest)
endif()
