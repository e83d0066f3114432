#include "cli/torch/torch_program.h"

#include "cli/program.h"
#include "cli/torch/python_models.h"
#include "engine/cuda_runtime.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/recorder/shared_libraries.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

namespace pipescope {
void prepare_torch() {
    attach_shared_libraries();  // before a recorder exists, the model's library is loaded and profiled
    load_cuda();
    tracking_allocator::install();
    // The loss and the optimizer run on this thread. More threads would take cores from the lanes, and the profile
    // measures with one thread.
    at::set_num_threads(1);
}

int run_pipescope_torch(int argc, const char* const* argv) {
    prepare_torch();
    return run_pipescope_torch(argc, argv, nullptr);
}

int run_pipescope_torch(int argc, const char* const* argv, PythonModels* python) {
    // Users type `pipescope run`, so help and errors use that name.
    Program program("pipescope", "Build, measure and train models: the commands of pipescope that need LibTorch",
                    PIPESCOPE_VERSION " with LibTorch " TORCH_VERSION);
    add_devices_command(program);
    add_models_command(program, python);
    add_profile_command(program, python);
    add_run_command(program, python);
    add_demo_command(program);
    if (python != nullptr) {
        program.set_rethrow([python] { python->rethrow(); });
    }
    return program.run(argc, argv);
}
}  // namespace pipescope
