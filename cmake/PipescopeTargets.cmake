# How the project's own targets are made: one library per folder, tests that are found by CTest, one precompiled header.

# pipescope_library(<name> SOURCES .. [PUBLIC ..] [PRIVATE ..]) makes pipescope_<name>, alias pipescope::<name>.
function(pipescope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(pipescope_${name} STATIC ${ARG_SOURCES})
  add_library(pipescope::${name} ALIAS pipescope_${name})
  target_link_libraries(pipescope_${name}
    PUBLIC "$<BUILD_INTERFACE:pipescope_compiler>" ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# <torch/torch.h> costs 10 to 40 s a file. Files of a target that calls pipescope_use_torch(<target>) compile against it
# precompiled, once for the whole project.
if(PIPESCOPE_TORCH)
  file(WRITE "${PROJECT_BINARY_DIR}/pipescope_torch_pch.cpp.in" "// precompiles torch/torch.h for every torch target\n")
  configure_file("${PROJECT_BINARY_DIR}/pipescope_torch_pch.cpp.in" "${PROJECT_BINARY_DIR}/pipescope_torch_pch.cpp" COPYONLY)
  add_library(pipescope_torch_pch OBJECT "${PROJECT_BINARY_DIR}/pipescope_torch_pch.cpp")
  target_link_libraries(pipescope_torch_pch PRIVATE pipescope_compiler LibTorch::torch)
  target_compile_options(pipescope_torch_pch PRIVATE -fpch-preprocess)
  target_precompile_headers(pipescope_torch_pch PRIVATE <torch/torch.h>)
endif()

function(pipescope_use_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::torch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM pipescope_torch_pch)
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
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
if(PIPESCOPE_TESTS)
  include(GoogleTest)
endif()
