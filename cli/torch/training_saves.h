#pragma once

#include "save/save_folder.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
class GPipe;
class LaneOptimizers;
class SavedTraining;

struct SaveOptions {
    std::filesystem::path folder;       ///< empty: nothing is saved
    std::optional<std::int64_t> every;  ///< steps between saves; empty: only the last step is saved
    bool resume = false;                ///< continue from the newest saved step
};

/// Throws UsageError if options are missing or out of range.
void check_save_options(const SaveOptions& options);

/// The saved steps of one run: the step it continues from, and the steps it writes. A failed save does not end the
/// training. A save of several processes is whole once the first step after its files were written has ended.
/// Threading: one thread, between the model's steps.
class TrainingSaves {
public:
    /// Opens the folder and finds the newest saved step. `start` describes the training about to run. Throws SaveError
    /// if the folder holds steps and the run does not resume, or if the newest step belongs to another training.
    TrainingSaves(const SaveOptions& options, TrainingState start, SavingRanks ranks = {});
    ~TrainingSaves();
    TrainingSaves(const TrainingSaves&) = delete;
    TrainingSaves& operator=(const TrainingSaves&) = delete;

    /// Number of steps done by earlier runs.
    std::int64_t steps_done() const;
    /// The saved step that the run continues from, with its learning rate; null if it starts from the beginning.
    const SavedTraining* resumed() const { return resumed_.get(); }

    /// The rate that this run trains with, for later saves.
    void set_learning_rate(double rate) { state_.learning_rate = rate; }
    /// Loads the step that the run continues from, if any. Throws SaveError before it changes the model, and
    /// EngineError for a model that cannot be saved.
    void restore(GPipe& model, LaneOptimizers& optimizers);
    /// True if the model should be saved after that many steps.
    bool is_due(std::int64_t steps) const { return every_ && steps % *every_ == 0; }
    /// Saves the model if is_due(): copies it, and a thread writes while the training goes on. If the host lacks memory
    /// for a copy, returns once the files are written.
    void after_step(const GPipe& model, const LaneOptimizers& optimizers);
    /// Saves the model unless its last step is already saved. All saves are then on the disk, or failed.
    void finish(const GPipe& model, const LaneOptimizers& optimizers);

    /// Path of the newest step that was saved or loaded; empty: none.
    const std::filesystem::path& newest() const { return newest_; }
    /// Duration of each save of this run, until the files were on the disk.
    const std::vector<Nanoseconds>& times() const { return times_; }
    /// How long the training waited for each of them.
    const std::vector<Nanoseconds>& pauses() const { return pauses_; }
    /// Why the last save failed; empty if it succeeded.
    const std::string& failure() const { return failure_; }

private:
    void begin_save(const GPipe& model, const LaneOptimizers& optimizers, std::uint64_t most_bytes);
    void end_save();

    std::optional<std::int64_t> every_;
    SaveFolder folder_;
    TrainingState state_;
    std::unique_ptr<SavedTraining> resumed_;
    std::filesystem::path newest_;
    std::int64_t last_tried_ = 0;  // equal on all ranks, unlike newest_
    bool is_only_process_;
    std::vector<Nanoseconds> times_;
    std::vector<Nanoseconds> pauses_;
    Nanoseconds pause_{};  // of the save that has begun
    std::string failure_;
};
}  // namespace pipescope
