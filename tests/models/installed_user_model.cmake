# As a user: installs what models need, builds the example against it, and trains it.
#     cmake -DBUILD=.. -DEXAMPLE=.. -DCOMPILER=.. -DPROGRAM=pipescope-torch -P installed_user_model.cmake

set(work "${BUILD}/installed_user_model")
file(REMOVE_RECURSE "${work}")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --component development --prefix "${work}/prefix")
# Every header that the documentation tells users to include is there, and compiles, as do all others.
cmake_path(GET EXAMPLE PARENT_PATH root)
cmake_path(GET root PARENT_PATH root)
file(GLOB_RECURSE pages "${root}/docs/*.md")
list(APPEND pages "${root}/README.md")
set(includes)
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  string(REGEX MATCHALL "<pipescope/[a-z_/]+\\.h>" found "${text}")
  list(APPEND includes ${found})
endforeach()
file(GLOB_RECURSE headers RELATIVE "${work}/prefix/include" "${work}/prefix/include/pipescope/*.h")
list(TRANSFORM headers REPLACE "(.+)" "<\\1>")
list(APPEND includes ${headers})
list(REMOVE_DUPLICATES includes)
list(TRANSFORM includes PREPEND "#include ")
list(JOIN includes "\n" includes)
file(WRITE "${work}/headers.h" "${includes}\n")
file(WRITE "${work}/headers.cmake" "add_compile_options(-include \"${work}/headers.h\")\n")
# The example includes them all: a file of their own would read torch's headers again, which takes a compiler 15 s.
run("${CMAKE_COMMAND}" -G Ninja -S "${EXAMPLE}" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE= "-DCMAKE_PROJECT_user_model_INCLUDE=${work}/headers.cmake")
run("${CMAKE_COMMAND}" --build "${work}/build")
run("${PROGRAM}" models "${work}/build/libspirals.so:blocks=2")
run("${PROGRAM}" run "${work}/build/libspirals.so:width=16,blocks=2" --balance 2,2 -m 2 --batch 8 --steps 3)
file(REMOVE_RECURSE "${work}/prefix")  # the library stays: other tests load it
