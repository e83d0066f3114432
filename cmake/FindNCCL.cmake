# What a library around torch's ProcessGroupNCCL needs: NCCL::torch (headers of NCCL and CUDA, and the CUDA half of
# LibTorch). Looked for in the pip packages beside torch's, which `scripts/setup --cuda` installs; set NCCL_ROOT to
# another folder with cu13/include and nccl/include, then to a CUDA Toolkit.

get_filename_component(nccl_packages "${LIBTORCH_LIBRARY_DIR}/../../nvidia" ABSOLUTE)
set(nccl_hints ${NCCL_ROOT} $ENV{NCCL_ROOT} ${nccl_packages})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl_hints} PATH_SUFFIXES nccl/include include)
# ATen's headers for CUDA include those of its libraries.
find_path(NCCL_CUDA_INCLUDE_DIR cusolverDn.h HINTS ${nccl_hints} PATHS /usr/local/cuda PATH_SUFFIXES cu13/include include)
find_library(NCCL_TORCH_CUDA_LIBRARY torch_cuda HINTS ${LIBTORCH_LIBRARY_DIR} NO_DEFAULT_PATH)
find_library(NCCL_C10_CUDA_LIBRARY c10_cuda HINTS ${LIBTORCH_LIBRARY_DIR} NO_DEFAULT_PATH)
set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR)
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" nccl_line REGEX "define NCCL_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" nccl_number "${nccl_line}")
    string(APPEND NCCL_VERSION "${nccl_number}.")
  endforeach()
  string(REGEX REPLACE "[.]$" "" NCCL_VERSION "${NCCL_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR NCCL_TORCH_CUDA_LIBRARY NCCL_C10_CUDA_LIBRARY
  REASON_FAILURE_MESSAGE "run scripts/setup --cuda, which installs NCCL, to send tensors from GPU to GPU")

if(NCCL_FOUND AND NOT TARGET NCCL::torch)
  add_library(NCCL::torch INTERFACE IMPORTED)
  target_include_directories(NCCL::torch SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}" "${NCCL_CUDA_INCLUDE_DIR}")
  target_compile_definitions(NCCL::torch INTERFACE USE_DISTRIBUTED USE_C10D_NCCL)
  target_link_libraries(NCCL::torch INTERFACE "${NCCL_TORCH_CUDA_LIBRARY}" "${NCCL_C10_CUDA_LIBRARY}" LibTorch::torch)
endif()
