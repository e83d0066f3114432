#include "profiler/layers/host_device.h"

#include "base/thread_start.h"
#include "models/cast_model.h"
#include "profiler/layers/layer_chain.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSide = 512;               // 0.27 GFLOP per product
constexpr std::int64_t kCopiedFloats = 16 << 20;  // 64 MB: beyond the caches
constexpr std::chrono::milliseconds kTrial{150};

/// Seconds of the fastest call: the machine's speed without other load on its cores.
template <class Call>
double quickest(Call call) {
    call();  // warm-up
    double best = std::numeric_limits<double>::infinity();
    const auto end = Clock::now() + kTrial;
    do {
        const auto start = Clock::now();
        call();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    } while (Clock::now() < end);
    return best;
}

double product_rate(at::ScalarType type) {
    const at::Tensor left = at::ones({kSide, kSide}, type);
    at::Tensor product = at::empty({kSide, kSide}, type);
    return 2.0 * kSide * kSide * kSide / quickest([&] { at::mm_out(product, left, left); });
}

DeviceType calibrate(const std::string& dtype) {
    run_on_one_thread();
    const at::NoGradGuard no_grad;
    DeviceType device;
    device.name = "cpu";
    device.flops_per_second["float32"] = product_rate(at::kFloat);
    if (const auto type = scalar_type(dtype); type && *type != at::kFloat && dtype != "tf32") {
        device.flops_per_second[dtype] = product_rate(*type);
    }
    const at::Tensor from = at::ones({kCopiedFloats});
    at::Tensor to = at::empty({kCopiedFloats});
    device.memory_bytes_per_second = 2.0 * static_cast<double>(from.nbytes()) / quickest([&] { to.copy_(from); });
    at::Tensor one = at::zeros({1});
    device.launch_ns = 1e9 * quickest([&] { one.add_(one); });
    device.memory_bytes = static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    device.source = "calibrated on this machine, one core";
    return device;
}
}  // namespace

DeviceType calibrated_host(const std::string& dtype) {
    const int threads_here = at::get_num_threads();
    // A separate thread, so that the setting of one intra-op thread stays there.
    DeviceType device = start_work("the calibration", [&] { return calibrate(dtype); }).get();
    at::set_num_threads(threads_here);
    return device;
}
}  // namespace pipescope
