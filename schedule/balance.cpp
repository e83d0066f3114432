#include "schedule/balance.h"

#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace pipescope {
namespace {
// Far above any real model, and low enough that a thousand partitions cannot overflow a sum.
constexpr std::int64_t kMostLayers = 1'000'000'000;
}  // namespace

Balance::Balance(const std::vector<std::int64_t>& layers_per_partition) {
    if (layers_per_partition.empty()) {
        throw BalanceError(
            "balance is empty; it needs at least 1 partition; give the layers per partition, such as 2,3");
    }
    ends_.reserve(layers_per_partition.size());
    std::size_t end = 0;
    for (std::size_t j = 0; j < layers_per_partition.size(); ++j) {
        const std::int64_t layers = layers_per_partition[j];
        if (layers < 1 || layers > kMostLayers) {
            throw BalanceError("balance[" + std::to_string(j) + "] is " + std::to_string(layers) +
                               "; each partition needs at least 1 layer and at most " + std::to_string(kMostLayers) +
                               "; use fewer partitions");
        }
        end += static_cast<std::size_t>(layers);
        ends_.push_back(end);
    }
}

LayerRange Balance::layers_of(PartitionId partition) const {
    const std::size_t j = partition.index();
    if (j >= ends_.size()) {
        throw BalanceError("partition " + std::to_string(partition.value()) + " does not exist; the balance " +
                           to_string(*this) + " has " + counted(ends_.size(), "partition", "partitions") +
                           "; use a smaller index");
    }
    const std::size_t first = j == 0 ? 0 : ends_[j - 1];
    return {LayerId{first}, LayerId{ends_[j]}};
}

PartitionId Balance::partition_of(LayerId layer) const {
    const auto owner = std::upper_bound(ends_.begin(), ends_.end(), layer.index());
    if (owner == ends_.end()) {
        throw BalanceError("layer " + std::to_string(layer.value()) + " does not exist; the balance " +
                           to_string(*this) + " covers " + counted(num_layers(), "layer", "layers") +
                           "; use a smaller index");
    }
    return PartitionId{owner - ends_.begin()};
}

std::vector<std::int64_t> Balance::layers_per_partition() const {
    std::vector<std::int64_t> layers(ends_.size());
    std::adjacent_difference(ends_.begin(), ends_.end(), layers.begin());
    return layers;
}

void Balance::check_covers(std::size_t layers) const {
    if (layers != num_layers()) {
        throw BalanceError("balance " + to_string(*this) + " sums to " + std::to_string(num_layers()) +
                           "; it must sum to the model's " + counted(layers, "layer", "layers") +
                           "; change it, or let 'pipescope balance' find one");
    }
}

std::string to_string(const Balance& balance) {
    return joined_text(balance.layers_per_partition(), ",", [](std::int64_t layers) { return std::to_string(layers); });
}

Balance parse_balance(const std::string& text) {
    std::vector<std::int64_t> layers;
    std::string_view rest = text;
    while (true) {
        const std::size_t comma = rest.find(',');
        const std::string_view item = rest.substr(0, comma);
        const auto number = number_in<std::int64_t>(item);
        if (!number) {
            throw BalanceError("balance '" + text + "' is not a list of layer counts; '" + std::string(item) +
                               "' is not a whole number; write it as 2,3,1");
        }
        layers.push_back(*number);
        if (comma == std::string_view::npos) {
            return Balance(layers);
        }
        rest.remove_prefix(comma + 1);
    }
}
}  // namespace pipescope
