#include "engine/recompute_inputs.h"

#include "engine/engine_error.h"
#include "engine/partition.h"

#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Skips come first among a partition's inputs.
std::string name_of(std::size_t input, const Partition& partition) {
    const std::string where = partition.id().value() == 0 ? "the model"
                                                          : "partition " + std::to_string(partition.id().value()) +
                                                                " (" + partition.name() + ")";
    const std::size_t num_skips = partition.skips().incoming.size();
    return input < num_skips ? "a skip that " + where + " pops"
                             : "input " + std::to_string(input - num_skips) + " of " + where;
}
}  // namespace

std::uint32_t version_of(const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_inference() ? static_cast<std::uint32_t>(tensor._version()) : 0;
}

RecomputeInputs::RecomputeInputs(Tensors inputs, bool trains) : inputs_(std::move(inputs)), trains_(trains) {
    for (const at::Tensor& input : inputs_) {
        versions_.push_back(version_of(input));
    }
}

Tensors RecomputeInputs::take(const Partition& partition, bool trains) {
    if (trains != trains_) {
        throw EngineError("the model was in " + std::string(trains_ ? "train" : "eval") +
                          " mode in forward and is in " + (trains ? "train" : "eval") +
                          " mode in backward; a checkpointed micro-batch is computed again, in one mode; switch back "
                          "first, go backward before you switch, or use checkpoint never");
    }
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
        if (version_of(inputs_[k]) != versions_[k]) {
            throw EngineError(name_of(k, partition) + " was changed in place between forward and backward (version " +
                              std::to_string(versions_[k]) + ", now " + std::to_string(version_of(inputs_[k])) +
                              "); a checkpointed micro-batch is computed again from its input; change a clone, go "
                              "backward first, or use checkpoint never");
        }
    }
    return std::exchange(inputs_, {});
}
}  // namespace pipescope
