# LibTorch from the pip wheel: LibTorch::torch (c10 and torch_cpu). The wheel's own CMake package wants nvcc and fails in
# its try_run on a machine without a GPU; two imported targets are all we need, since CUDA is loaded at run time.
# Looked for in the project's Python environment; set LIBTORCH_ROOT to a folder with include/ and lib/ to point elsewhere.

file(GLOB pipescope_torch_candidates "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
find_path(LIBTORCH_INCLUDE_DIR torch/script.h
  HINTS ${LIBTORCH_ROOT} ${pipescope_torch_candidates} PATH_SUFFIXES include)
find_library(LIBTORCH_CPU_LIBRARY torch_cpu
  HINTS ${LIBTORCH_ROOT} ${pipescope_torch_candidates} PATH_SUFFIXES lib)
find_library(LIBTORCH_C10_LIBRARY c10
  HINTS ${LIBTORCH_ROOT} ${pipescope_torch_candidates} PATH_SUFFIXES lib)

# LibTorch_VERSION_MAJOR, _MINOR and _PATCH.
foreach(part IN ITEMS MAJOR MINOR PATCH)
  set(LibTorch_VERSION_${part} "")
  if(LIBTORCH_INCLUDE_DIR)
    file(STRINGS "${LIBTORCH_INCLUDE_DIR}/torch/headeronly/version.h" line REGEX "^#define TORCH_VERSION_${part} [0-9]+$")
    string(REGEX REPLACE ".* " "" LibTorch_VERSION_${part} "${line}")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LIBTORCH_CPU_LIBRARY LIBTORCH_C10_LIBRARY LIBTORCH_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup, which installs the torch wheel, or configure with -DPIPESCOPE_TORCH=OFF")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  get_filename_component(LIBTORCH_LIBRARY_DIR "${LIBTORCH_CPU_LIBRARY}" DIRECTORY)
  # Where the wheel's CUDA run-time packages are; torch_cpu is linked against libcudart and libcupti even on a CPU.
  file(GLOB LIBTORCH_CUDA_DIRS "${LIBTORCH_LIBRARY_DIR}/../../nvidia/cu13/lib")

  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LIBTORCH_C10_LIBRARY}")
  # As the wheel was compiled: without it torch's headers give some classes other members.
  target_compile_definitions(LibTorch::c10 INTERFACE NDEBUG)
  # Pip gives headers the times of their release. Without the version, objects of another torch would look up to date.
  target_compile_definitions(LibTorch::c10 INTERFACE
    "PIPESCOPE_TORCH_VERSION=${LibTorch_VERSION_MAJOR}.${LibTorch_VERSION_MINOR}.${LibTorch_VERSION_PATCH}")
  target_include_directories(LibTorch::c10 SYSTEM INTERFACE
    "${LIBTORCH_INCLUDE_DIR}" "${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include")
  add_library(LibTorch::torch SHARED IMPORTED)
  set_target_properties(LibTorch::torch PROPERTIES
    IMPORTED_LOCATION "${LIBTORCH_CPU_LIBRARY}"
    IMPORTED_LINK_DEPENDENT_LIBRARIES LibTorch::c10)
  target_link_libraries(LibTorch::torch INTERFACE LibTorch::c10)
  # DT_RPATH, not RUNPATH: the libraries torch_cpu itself needs are looked for there too.
  set(rpath "${LIBTORCH_LIBRARY_DIR}")
  foreach(directory ${LIBTORCH_CUDA_DIRS})
    get_filename_component(directory "${directory}" REALPATH)
    string(APPEND rpath ":${directory}")
  endforeach()
  target_link_options(LibTorch::torch INTERFACE "LINKER:--disable-new-dtags,-rpath,${rpath}")
endif()
