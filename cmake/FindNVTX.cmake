# The header-only NVTX 3: NVTX::nvtx3. Looked for in the project's Python environment (package nvidia-nvtx), then beside
# LIBTORCH_ROOT, then in a CUDA Toolkit. Set NVTX_INCLUDE_DIR to point elsewhere.

file(GLOB pipescope_nvtx_candidates "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/*/include"
     "${LIBTORCH_ROOT}/../nvidia/*/include")
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
  HINTS ${pipescope_nvtx_candidates}
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NVTX REQUIRED_VARS NVTX_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup, which installs the nvidia-nvtx headers")

if(NVTX_FOUND AND NOT TARGET NVTX::nvtx3)
  add_library(NVTX::nvtx3 INTERFACE IMPORTED)
  target_include_directories(NVTX::nvtx3 SYSTEM INTERFACE "${NVTX_INCLUDE_DIR}")
  target_link_libraries(NVTX::nvtx3 INTERFACE ${CMAKE_DL_LIBS})
endif()
