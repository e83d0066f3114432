# As a user without torch: installs the package, builds the example against its component core, and runs it.
#     cmake -DBUILD=.. -DEXAMPLE=.. -DCOMPILER=.. -DPROGRAM=pipescope -P installed_core.cmake

cmake_minimum_required(VERSION 3.24)
set(work "${BUILD}/installed_core")
file(REMOVE_RECURSE "${work}")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --component development --prefix "${work}/prefix")
# An internal header has no business among them.
file(GLOB_RECURSE headers RELATIVE "${work}/prefix/include/pipescope" "${work}/prefix/include/pipescope/*.h")
if(NOT "simulator/plan/planner.h" IN_LIST headers OR "simulator/clock/event_engine.h" IN_LIST headers)
  message(FATAL_ERROR "the public headers and no others are to be installed; installed are ${headers}")
endif()
run("${CMAKE_COMMAND}" -G Ninja -S "${EXAMPLE}" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Debug)
run("${CMAKE_COMMAND}" --build "${work}/build")
file(WRITE "${work}/p.json" [[{"format": "pipescope.profile", "version": 1, "samples": [1, 2], "layers": [
  {"name": "a", "forward_ns": [1000, 2000], "backward_ns": [2000, 4000], "output_bytes": [64, 128]},
  {"name": "b", "forward_ns": [1000, 2000], "backward_ns": [2000, 4000], "output_bytes": [64, 128]}]}]])
run("${PROGRAM}" simulate "${work}/p.json" --balance 1,1 -m 4 --batch 8 --trace "${work}/t.sqlite")
run("${work}/build/plan" "${work}/p.json" "${work}/t.sqlite")
file(REMOVE_RECURSE "${work}")
