# CUPTI's headers: CUPTI::headers. The library itself is loaded at run time, where there is a CUDA driver. Looked for in
# the project's Python environment (packages nvidia-cuda-cupti, nvidia-cuda-runtime and nvidia-cuda-crt), then beside
# LIBTORCH_ROOT, then in a CUDA Toolkit. Set CUPTI_INCLUDE_DIR to point elsewhere. Without them a recorder says in each
# trace that it was built without CUPTI.

file(GLOB pipescope_cupti_candidates "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/include"
     "${LIBTORCH_ROOT}/../nvidia/cu13/include")
find_path(CUPTI_INCLUDE_DIR cupti.h
  HINTS ${pipescope_cupti_candidates}
  PATHS /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include /usr/local/cuda/targets/x86_64-linux/include)
find_path(CUPTI_CUDA_INCLUDE_DIR cuda.h HINTS ${CUPTI_INCLUDE_DIR} PATHS /usr/local/cuda/include)
find_path(CUPTI_CRT_INCLUDE_DIR crt/host_defines.h HINTS ${CUPTI_CUDA_INCLUDE_DIR} PATHS /usr/local/cuda/include)
set(CUPTI_VERSION "")
if(CUPTI_INCLUDE_DIR AND EXISTS "${CUPTI_INCLUDE_DIR}/cupti_version.h")
  file(STRINGS "${CUPTI_INCLUDE_DIR}/cupti_version.h" cupti_version_line REGEX "define CUPTI_API_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" CUPTI_VERSION "${cupti_version_line}")
endif()
# The records' structures grow from release to release; ours are those of 13.x.
if(CUPTI_VERSION AND CUPTI_VERSION LESS 130000)
  set(CUPTI_INCLUDE_DIR "CUPTI_INCLUDE_DIR-NOTFOUND")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUPTI
  REQUIRED_VARS CUPTI_INCLUDE_DIR CUPTI_CUDA_INCLUDE_DIR CUPTI_CRT_INCLUDE_DIR CUPTI_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup, which installs CUPTI's headers, to record GPUs")

if(CUPTI_FOUND AND NOT TARGET CUPTI::headers)
  add_library(CUPTI::headers INTERFACE IMPORTED)
  target_include_directories(CUPTI::headers SYSTEM INTERFACE "${CUPTI_INCLUDE_DIR}" "${CUPTI_CUDA_INCLUDE_DIR}"
    "${CUPTI_CRT_INCLUDE_DIR}")
endif()
