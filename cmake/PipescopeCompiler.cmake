# Language level, warnings, sanitizers, ccache and where things are put.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Programs are compiled as libraries are: the same file in both is one entry of a compiler cache.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE "-fPIC")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(pipescope_compiler INTERFACE)
target_include_directories(pipescope_compiler INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(pipescope_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wunused
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>"  # GCC 12 reports "a" + std::string (PR 105329)
  # GCC collects its garbage from 128 MiB on by default, which costs a tenth of the time of files this large.
  "$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>"
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
option(PIPESCOPE_WERROR "Treat warnings as errors" OFF)
if(PIPESCOPE_WERROR)
  target_compile_options(pipescope_compiler INTERFACE -Werror)
endif()
if(PIPESCOPE_SANITIZE)
  target_compile_options(pipescope_compiler INTERFACE -fsanitize=${PIPESCOPE_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(pipescope_compiler INTERFACE -fsanitize=${PIPESCOPE_SANITIZE})
endif()

find_program(PIPESCOPE_CCACHE ccache)
if(PIPESCOPE_CCACHE)
  # Relative paths let another checkout of the same files hit. A file that changed while it was compiled must not be kept:
  # no sloppiness about the times of files. The compiler's garbage collector does not change what it makes.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=time_macros "CCACHE_IGNOREOPTIONS=--param=ggc*"
      "${PIPESCOPE_CCACHE}")
  # ccache tells names of one compiler apart. Most builds call it c++; pip, a user's CXX and others may call it g++.
  find_program(PIPESCOPE_CXX c++)
  if(PIPESCOPE_CXX AND NOT PIPESCOPE_CXX STREQUAL CMAKE_CXX_COMPILER)
    file(REAL_PATH "${PIPESCOPE_CXX}" usual)
    file(REAL_PATH "${CMAKE_CXX_COMPILER}" named)
    file(REAL_PATH "${PIPESCOPE_CCACHE}" cache)
    if(named STREQUAL usual AND NOT named STREQUAL cache)
      list(INSERT CMAKE_CXX_COMPILER_LAUNCHER 3 "CCACHE_COMPILER=${PIPESCOPE_CXX}")
    endif()
  endif()
endif()
