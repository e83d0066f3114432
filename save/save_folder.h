#pragma once

#include "save/safetensors.h"
#include "save/training_state.h"

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// The processes that save one training together; each saves its part of the tensors.
struct SavingRanks {
    int rank = 0;
    int num_ranks = 1;
    std::function<void()> barrier = {};  ///< returns once every rank has called it; empty for one process
};

struct TensorsToSave {
    std::vector<TensorToWrite> model;
    std::vector<TensorToWrite> optimizer;
    std::map<std::string, std::string> shared;  ///< further names of stored tensors, for other readers
};

/// True if a saved step has, or could have, a file of that name: one of its files in a folder named like a step.
bool is_part_of_save(const std::filesystem::path& path);
/// True if the path lies in a step that is or will be saved into the folder, or would take such a step's place.
bool is_in_step_of(const std::filesystem::path& folder, const std::filesystem::path& path);

/// The folder that a training saves its steps into (save/saved_step.h). A process killed at any instant leaves only
/// whole steps: a step is written into step-000010.partial, brought to the disk, and then renamed. The newest two steps
/// are kept; older ones are removed once a new one is in place. Other files in the folder stay.
///
/// Threading: one thread at a time; with several ranks, every rank calls save() with the same state.
class SaveFolder {
public:
    static constexpr int kKept = 2;

    /// Rank 0 makes the folder, locks it until this object ends, and removes the leftovers of a killed run. Throws
    /// SaveError if another run saves there, or if the folder cannot be written.
    explicit SaveFolder(std::filesystem::path folder, SavingRanks ranks = {});
    ~SaveFolder();
    SaveFolder(const SaveFolder&) = delete;
    SaveFolder& operator=(const SaveFolder&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }
    int rank() const noexcept { return ranks_.rank; }
    /// Returns the path of the saved step. Throws SaveError on every rank that failed, and on all ranks if the step was
    /// not saved; older steps then remain.
    std::filesystem::path save(const TrainingState& state, TensorsToSave tensors);

private:
    bool is_first() const noexcept { return ranks_.rank == 0; }
    void write_own(const std::filesystem::path& partial, TensorsToSave tensors) const;
    void publish(const std::filesystem::path& partial, const std::filesystem::path& step,
                 const TrainingState& state) const;

    std::filesystem::path path_;
    SavingRanks ranks_;
    int lock_ = -1;
};
}  // namespace pipescope
