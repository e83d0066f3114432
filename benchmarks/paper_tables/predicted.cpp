#include "benchmarks/paper_tables/predicted.h"

#include "simulator/search/balance_search.h"

#include <map>
#include <numeric>

namespace pipescope {
PredictedRow predict(const CheckedProfile& profile, const PublishedRow& row, const DeviceType& device,
                     const std::string& optimizer) {
    PipelineOptions options;
    options.chunks = row.chunks;
    options.batch = row.batch;
    options.checkpoint = row.checkpoint;
    options.optimizer = optimizer;
    options.hardware.link = {device.link_bytes_per_second * device.link_efficiency, device.link_latency_ns};
    const auto layers = static_cast<std::int64_t>(profile->layers.size());
    PredictedRow predicted;
    predicted.own_balance = std::accumulate(row.balance.begin(), row.balance.end(), std::int64_t{0}) != layers;
    const auto n = static_cast<int>(row.balance.size());
    if (!predicted.own_balance) {
        options.balance = Balance(row.balance);
    } else if (n == 1) {
        options.balance = Balance({layers});
    } else {
        options.balance = find_balance(profile, options, n, BalanceAlgorithm::minmax).balance;
    }
    predicted.simulation = simulate(profile, options, {.noise = false, .memory = true});
    return predicted;
}

Profile without_portals(const Profile& profile) {
    Profile tuples = profile;
    std::map<std::string, PerSize> carried;
    for (LayerProfile& layer : tuples.layers) {
        for (const std::string& skip : layer.pop) {
            carried.erase(skip);
        }
        for (const auto& [skip, bytes] : layer.stash) {
            carried[skip] = bytes;
        }
        for (const auto& [skip, bytes] : carried) {
            for (std::size_t k = 0; k < bytes.size(); ++k) {
                layer.output_bytes[k] += bytes[k];
            }
        }
        layer.pop.clear();
        layer.stash.clear();
    }
    return tuples;
}

double sum_of_peaks(const Simulation& simulation) {
    double bytes = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        bytes += static_cast<double>(lane.peak_bytes);
    }
    return bytes;
}

double sum_of_activations(const Simulation& simulation) {
    double bytes = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        const Bytes model = lane.peak[MemoryCategory::parameters] + lane.peak[MemoryCategory::gradients] +
                            lane.peak[MemoryCategory::optimizer];
        bytes += static_cast<double>(lane.peak_bytes - model);
    }
    return bytes;
}
}  // namespace pipescope
