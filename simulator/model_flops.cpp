#include "simulator/model_flops.h"

#include "base/number_text.h"
#include "hardware/device_catalogue.h"
#include "schedule/micro_batches.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>
#include <utility>

namespace pipescope {
namespace {
std::string in_capitals(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::toupper(letter); });
    return text;
}

/// True if `word` stands in the text, with no letter or digit beside it.
bool has_word(const std::string& text, const std::string& word) {
    const auto ends = [&](std::size_t at) {
        return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
    };
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        if ((at == 0 || ends(at - 1)) && ends(at + word.size())) {
            return true;
        }
    }
    return false;
}

/// Cards and pairs of cards run at other clocks than the modules of the same name.
bool is_other_variant(const std::string& device, const DeviceType& type) {
    const bool is_card = has_word(device, "PCIE") || has_word(device, "NVL");
    return is_card && in_capitals(type.source).find("SXM") != std::string::npos;
}

double sum_over_micro_batches(const Profile& profile, const LayerProfile& layer,
                              const std::vector<std::int64_t>& sizes) {
    double sum = 0;
    for (const std::int64_t size : sizes) {
        sum += interpolate(profile.samples, layer.flops, static_cast<double>(size)).value;
    }
    return sum;
}
}  // namespace

namespace {
/// Peak of a device of one type.
std::optional<double> type_peak(const std::string& device, const std::string& dtype) {
    static const std::vector<DeviceType> catalogue = device_catalogue();
    const std::string name = in_capitals(device);
    for (const DeviceType& type : catalogue) {
        const auto rate = type.flops_per_second.find(dtype);
        if (has_word(name, in_capitals(type.name)) && !is_other_variant(name, type) &&
            rate != type.flops_per_second.end()) {
            return rate->second;
        }
    }
    return std::nullopt;
}

/// Lanes of each type, of a pipeline over several: {"V100", 1} and {"H100", 8} of "V100:1,H100:8". Empty for a device.
std::vector<std::pair<std::string, double>> lanes_of_types(const std::string& devices) {
    std::vector<std::pair<std::string, double>> types;
    for (std::size_t start = 0; start <= devices.size();) {
        const std::size_t end = std::min(devices.find(',', start), devices.size());
        const std::string each = devices.substr(start, end - start);
        const std::size_t colon = each.rfind(':');
        const auto lanes = colon == std::string::npos ? std::nullopt : number_in<std::uint32_t>(each.substr(colon + 1));
        if (!lanes) {
            return {};
        }
        types.emplace_back(each.substr(0, colon), *lanes);
        start = end + 1;
    }
    return types.size() > 1 ? types : std::vector<std::pair<std::string, double>>{};
}
}  // namespace

std::optional<double> device_peak(const std::string& device, const std::string& dtype) {
    const std::vector<std::pair<std::string, double>> types = lanes_of_types(device);
    if (types.empty()) {
        return type_peak(device, dtype);
    }
    double all = 0;
    double number = 0;
    for (const auto& [type, lanes] : types) {
        const std::optional<double> peak = type_peak(type, dtype);
        if (!peak) {
            return std::nullopt;
        }
        all += *peak * lanes;
        number += lanes;
    }
    return number > 0 ? std::optional(all / number) : std::nullopt;
}

std::optional<ModelFlops> model_flops(const Profile& profile, const PipelineOptions& options) {
    const bool known = std::ranges::any_of(profile.layers, [](const LayerProfile& layer) {
        return std::ranges::any_of(layer.flops, [](double flops) { return flops > 0; });
    });
    if (!known) {
        return std::nullopt;
    }
    constexpr double kForwards = 3;  // the forward, and two times as much backward
    const std::vector<std::int64_t> sizes = micro_batch_sizes(replica_batch(options), options.chunks);
    ModelFlops flops;
    flops.lanes.resize(static_cast<std::size_t>(num_lanes(options)));
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const PartitionId partition{j};
        const LayerRange layers = options.balance.layers_of(partition);
        const std::vector<LaneId> lanes = lanes_of(options, partition);
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const double all = kForwards * sum_over_micro_batches(profile, profile.layers[l], sizes);
            for (const LaneId lane : lanes) {
                flops.lanes[lane.index()] += all / static_cast<double>(lanes.size());
            }
        }
    }
    for (const double lane : flops.lanes) {
        flops.step += options.replicas * lane;
    }
    if (const std::optional<double> peak = device_peak(profile.device, profile.dtype)) {
        std::set<std::pair<int, std::string>> devices;
        const int lanes = num_lanes(options);
        for (int lane = 0; lane < lanes; ++lane) {
            devices.emplace(process_of(options.hardware, LaneId{lane}, lanes),
                            device_of(options.hardware, LaneId{lane}));
        }
        flops.peak_per_second = *peak * static_cast<double>(devices.size()) * options.replicas;
    }
    return flops;
}
}  // namespace pipescope
