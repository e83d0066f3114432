#pragma once

#include "save/checksum.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
/// The state of a training besides its tensors. Random numbers inside layers depend on seed and step, so these two
/// restore them.
struct TrainingState {
    static constexpr double kLargestLearningRate = 1e30;  ///< torch refuses factors beyond float32's range

    std::int64_t step = 0;  ///< number of finished steps, which is also the number of the next step
    std::string model = {};
    std::string optimizer = {};
    double learning_rate = 0;
    std::uint64_t seed = 0;

    friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// The file training.json of a save.
struct TrainingRecord {
    TrainingState state;
    /// Empty: saved by an earlier version without checksums, so damage inside tensors cannot be found.
    std::optional<SaveChecksums> checksums;

    friend bool operator==(const TrainingRecord&, const TrainingRecord&) = default;
};

/// If the record has the tensors' checksums, the file also gets a checksum of itself. Throws SaveError for a state that
/// parse_training_record() would refuse.
std::string to_json(const TrainingRecord& record);
/// Throws SaveError if the text was changed, or is not a training.json of a known version.
TrainingRecord parse_training_record(std::string_view text);

/// The file that hands a rank's checksums to rank 0 while a step is saved. Throws SaveError.
std::string to_json(const SaveChecksums& checksums);
SaveChecksums parse_save_checksums(std::string_view text);
}  // namespace pipescope
