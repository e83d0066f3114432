// libpipescope_nccl.so: tensors from GPU to GPU of two processes, by torch's ProcessGroupNCCL. A library of its own,
// since it needs NCCL's header and libtorch_cuda.so, which the engine does without (device_plugin.h).

#include "engine/processes/device_plugin.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/env.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <utility>

namespace pipescope {
namespace {
/// Torch's watchdog would end the process when NCCL reports an error, before the group of processes agrees on the
/// cause. The engine watches the processes itself, and aborts what they have enqueued. A user's own settings stay.
void leave_failures_to_the_engine() {
    constexpr bool kReplace = false;
    for (const char* const off :
         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
          "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_PROPAGATE_ERROR", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
        c10::utils::set_env(off, "0", kReplace);
    }
}

std::string missing() {
    return c10::cuda::device_count() == 0 ? "no CUDA device is there" : "";
}

std::string identity(c10::Device device) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text = "GPU-";
    for (const char byte : at::cuda::getDeviceProperties(device.index())->uuid.bytes) {
        const auto bits = static_cast<unsigned char>(byte);
        text += {kDigits[bits >> 4U], kDigits[bits & 15U]};
    }
    return text;
}

c10d::Backend* connect(const DeviceEnd& end) {
    // A short message must not queue behind long kernels.
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->group_name = end.name;
    options->timeout = std::chrono::hours(24 * 365);  // a lane may compute for as long as it likes
    auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(end.store);
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), end.rank, 2, std::move(options)).release();
}
}  // namespace
}  // namespace pipescope

extern "C" __attribute__((visibility("default"))) const pipescope::DevicePlugin* pipescope_device_plugin() {
    static const pipescope::DevicePlugin plugin = {
        pipescope::kDevicePluginAbi, TORCH_VERSION,     "NCCL", "cuda", pipescope::missing,
        pipescope::identity,         pipescope::connect};
    static const bool once = (pipescope::leave_failures_to_the_engine(), true);
    static_cast<void>(once);
    return &plugin;
}
