#pragma once

#include "save/safetensors.h"
#include "save/training_state.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
/// The processes that save one training together; each saves its part of the tensors.
struct SavingRanks {
    int rank = 0;
    int num_ranks = 1;
    std::function<void()> barrier = {};  ///< returns once every rank has called it; empty for one process
    /// True if every rank says true; returns once every rank has called it. Empty: a step that is written in the
    /// background is finished only where finish() is called.
    std::function<bool(bool)> all = {};
};

/// When the rank's files of a step are written.
enum class Writing {
    at_once,        ///< before SaveFolder::begin() returns
    in_background,  ///< by a thread, while the caller goes on
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
/// Threading: one thread at a time; with several ranks, every rank calls the collective methods in the same order and
/// with the same state.
class SaveFolder {
public:
    static constexpr int kKept = 2;

    /// Rank 0 makes the folder, locks it until this object ends, and removes the leftovers of a killed run. Throws
    /// SaveError if another run saves there, or if the folder cannot be written.
    explicit SaveFolder(std::filesystem::path folder, SavingRanks ranks = {});
    /// Waits for a thread that writes. Of one process, its step is then whole; of several, it is dropped unless
    /// finish() was called.
    ~SaveFolder();
    SaveFolder(const SaveFolder&) = delete;
    SaveFolder& operator=(const SaveFolder&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }
    int rank() const noexcept { return ranks_.rank; }
    /// Collective: begin() and finish() in one. Returns the path of the saved step. Throws SaveError on every rank that
    /// failed, and on all ranks if the step was not saved; older steps then remain.
    std::filesystem::path save(const TrainingState& state, TensorsToSave tensors);

    /// Collective: begins to save a step, and does not throw for a step that cannot be saved. Precondition:
    /// !is_saving(). With Writing::in_background, a thread calls each tensor's `data`, until finish() returns. If the
    /// system refuses a thread, the files are written at once.
    void begin(const TrainingState& state, TensorsToSave tensors, Writing writing);
    /// True after begin(), until finish().
    bool is_saving() const noexcept { return saving_ != nullptr; }
    /// Collective if there is SavingRanks::all: true if no rank needs to wait for its files in finish(), written or
    /// failed. Precondition: is_saving().
    bool is_written() const;
    /// Collective: waits for the files and puts the step in place. Returns and throws as save() does. Precondition:
    /// is_saving().
    std::filesystem::path finish();
    /// From begin() until the files of the last finished step were on the disk.
    std::chrono::nanoseconds last_duration() const noexcept { return last_duration_; }

private:
    struct Saving;
    bool is_first() const noexcept { return ranks_.rank == 0; }
    void meet() const;
    void write_own(const std::filesystem::path& partial, TensorsToSave tensors) const;
    void publish(const std::filesystem::path& partial, const std::filesystem::path& step,
                 const TrainingState& state) const;

    std::filesystem::path path_;
    SavingRanks ranks_;
    int lock_ = -1;
    std::unique_ptr<Saving> saving_;
    std::chrono::nanoseconds last_duration_{};
};
}  // namespace pipescope
