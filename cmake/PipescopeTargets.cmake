# How the project's own targets are made: one library per folder, tests that are found by CTest.

# Headers of torch, Qt and GoogleTest take most of the time of a file that includes them. A build from nothing reads them
# once for 50 files of a target; a build to work in compiles each file alone, so that a change costs one file.
option(PIPESCOPE_UNITY "Compile 50 files of a target at a time: quickest for a build from nothing" OFF)

function(pipescope_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PIPESCOPE_UNITY} UNITY_BUILD_BATCH_SIZE 50)
  if(PIPESCOPE_UNITY)
    # A private class may hold what is in its file's anonymous namespace; GCC takes the included file for a header.
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

# For code that wires, prints, reads and writes, and compiles longer than it runs: optimised as little as keeps its
# templates small. GCC then loses track of some std::optionals, and warns of their values.
function(pipescope_compile_quickly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>" "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
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

# pipescope_test(<name> SOURCES .. LIBRARIES .. [TORCH] [TIMEOUT s] [LABEL l]) makes the GoogleTest program <name>; every
# case is a CTest of its own, under a time limit. With TORCH every suite is one, since each process takes 0.4 s to load
# torch, and has the label torch: scripts/test-torch runs all that have it. Other cases have
# the label l, or the program's name.
function(pipescope_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT;LABEL" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(PIPESCOPE_SANITIZE)
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE pipescope_compiler ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  pipescope_unity(${name})
  set(label ${name})
  if(ARG_LABEL)
    set(label ${ARG_LABEL})
  endif()
  if(ARG_TORCH)
    pipescope_use_torch(${name})
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)  # the compiler takes 3 GB for so many
    pipescope_discover_suites(${name} ${ARG_TIMEOUT})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${label})
  endif()
endfunction()

# Lists the suites of a GoogleTest program when CTest starts, and makes each a test. It is skipped if all its cases are.
function(pipescope_discover_suites name timeout)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
  file(GENERATE OUTPUT "${script}" CONTENT "
set(program \"$<TARGET_FILE:${name}>\")
if(EXISTS \"\${program}\")
  execute_process(COMMAND \"\${program}\" --gtest_list_tests OUTPUT_VARIABLE cases TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL \"\\n[A-Za-z0-9_/]+\\\\.\" suites \"\${cases}\")
  foreach(suite IN LISTS suites)
    string(STRIP \"\${suite}\" suite)
    add_test(\"\${suite}*\" \"\${program}\" \"--gtest_filter=\${suite}*\")
    set_tests_properties(\"\${suite}*\" PROPERTIES LABELS torch TIMEOUT ${timeout} SKIP_REGULAR_EXPRESSION \"PASSED  . 0 tests\")
  endforeach()
else()
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()
if(PIPESCOPE_TESTS)
  include(GoogleTest)
endif()
