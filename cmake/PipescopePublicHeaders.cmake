# The headers for users, by component of the installed package. scripts/check_layers.py reads these lists: a public
# header includes no header that is not public too.

set(PIPESCOPE_CORE_HEADERS
  balance/automatic_balance.h
  hardware/device_catalogue.h
  profiler/profile/kernel_program.h
  profiler/profile/layer_tape.h
  profiler/profile/operators.h
  profiler/profile/profile.h
  profiler/profile/profile_file.h
  schedule/balance.h
  schedule/checkpoint.h
  base/error.h
  base/ids.h
  base/machine_load.h
  schedule/memory_category.h
  schedule/schedule_table.h
  schedule/schedules.h
  schedule/task_graph.h
  schedule/task_key.h
  schedule/timeline.h
  schedule/update.h
  simulator/search/balance_algorithm.h
  simulator/search/balance_search.h
  hardware/hardware.h
  simulator/memory/memory_fit.h
  simulator/model_flops.h
  simulator/pipeline_options.h
  simulator/plan/planner.h
  simulator/simulation.h
  trace/open_trace.h
  trace/store/lane_work.h
  trace/store/opened_trace.h
  trace/store/trace_records.h
  trace/store/work_facts.h)

set(PIPESCOPE_ENGINE_HEADERS
  engine/cuda_runtime.h
  engine/current_task.h
  engine/device_memory.h
  engine/driver.h
  engine/engine_error.h
  engine/engine_options.h
  engine/gpipe.h
  engine/layer.h
  engine/processes/device_plugin.h
  engine/processes/processes.h
  engine/saved_training.h
  engine/skippable.h
  engine/skips.h
  engine/task_observer.h
  models/user_model.h
  models/zoo.h
  save/checksum.h
  save/safetensors.h
  save/save_error.h
  save/save_folder.h
  save/saved_step.h
  save/training_state.h)

# pipescope_install_headers(<component> <header>..) installs them as <pipescope/..>, and so they include each other.
function(pipescope_install_headers component)
  set(staged "${PROJECT_BINARY_DIR}/public-headers/${component}")
  install(CODE "
    file(REMOVE_RECURSE \"${staged}\")
    foreach(header IN ITEMS ${ARGN})
      file(READ \"${PROJECT_SOURCE_DIR}/\${header}\" text)
      string(REGEX REPLACE \"#include \\\"([^\\\"]+)\\\"\" \"#include <pipescope/\\\\1>\" text \"\${text}\")
      file(WRITE \"${staged}/\${header}\" \"\${text}\")
    endforeach()" COMPONENT development)
  install(DIRECTORY "${staged}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/pipescope" COMPONENT development)
endfunction()
