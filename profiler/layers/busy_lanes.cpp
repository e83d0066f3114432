#include "profiler/layers/busy_lanes.h"

namespace pipescope {
BusyLanes::BusyLanes(const ModelSpec& model, const std::vector<MeasuredSize>& sizes, std::uint64_t seed, int count)
    : sizes_(sizes) {
    for (int lane = 0; lane < count; ++lane) {
        chains_.push_back(std::make_unique<LayerChain>(model, seed + 1 + static_cast<std::uint64_t>(lane)));
    }
    for (const auto& chain : chains_) {
        threads_.emplace_back([this, &chain](const std::stop_token& stop) { work(stop, *chain); });
    }
}

void BusyLanes::work(const std::stop_token& stop, LayerChain& chain) {
    run_on_one_thread();
    try {
        while (!stop.stop_requested()) {
            const MeasuredSize& size = sizes_[size_];
            chain.run(size.start, size.target, size.segments, stop);
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
    }
}

void BusyLanes::check() {
    const std::lock_guard lock(mutex_);
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}
}  // namespace pipescope
