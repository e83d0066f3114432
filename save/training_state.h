#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipescope {
/// The file training.json of a save: everything but the tensors. Random numbers inside layers depend on seed and step,
/// so these two restore them.
struct TrainingState {
    std::int64_t step = 0;  ///< steps done, which is the number of the next step
    std::string model = {};
    std::string optimizer = {};
    double learning_rate = 0;
    std::uint64_t seed = 0;

    friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

std::string to_json(const TrainingState& state);
/// Throws SaveError for text that is no training.json of a version this program knows.
TrainingState parse_training_state(std::string_view text);
}  // namespace pipescope
