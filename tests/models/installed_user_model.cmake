# As a user: installs what models need, builds the example against it, and trains it.
#     cmake -DBUILD=.. -DEXAMPLE=.. -DCOMPILER=.. -DPROGRAM=pipescope-torch -P installed_user_model.cmake

set(work "${BUILD}/installed_user_model")
file(REMOVE_RECURSE "${work}")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --component development --prefix "${work}/prefix")
run("${CMAKE_COMMAND}" -G Ninja -S "${EXAMPLE}" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=)
run("${CMAKE_COMMAND}" --build "${work}/build")
run("${PROGRAM}" models "${work}/build/libspirals.so:blocks=2")
run("${PROGRAM}" run "${work}/build/libspirals.so:width=16,blocks=2" --balance 2,2 -m 2 --batch 8 --steps 3)
file(REMOVE_RECURSE "${work}")
