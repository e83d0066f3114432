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

/// The saved steps of one run: the one it continues from, and those it writes. A save that fails does not end the
/// training. Threading: one thread, between the steps of the model.
class TrainingSaves {
public:
    /// Opens the folder and finds the newest saved step. `start` describes the training to be run. Throws SaveError if
    /// the folder holds steps and the run does not resume, or if the newest one is of another training.
    TrainingSaves(const SaveOptions& options, TrainingState start, SavingRanks ranks = {});
    ~TrainingSaves();
    TrainingSaves(const TrainingSaves&) = delete;
    TrainingSaves& operator=(const TrainingSaves&) = delete;

    /// Steps done by earlier runs.
    std::int64_t steps_done() const;
    /// The saved step that the run continues from, with its learning rate; null if it starts from the beginning.
    const SavedTraining* resumed() const { return resumed_.get(); }

    /// The rate that this run trains with, for later saves.
    void set_learning_rate(double rate) { state_.learning_rate = rate; }
    /// Loads what the run continues from, if anything. Throws SaveError before it changes the model, and EngineError
    /// for a model that cannot be saved.
    void restore(GPipe& model, LaneOptimizers& optimizers);
    /// True if the model is to be saved after that many steps.
    bool is_due(std::int64_t steps) const { return every_ && steps % *every_ == 0; }
    /// Saves the model if it is time.
    void after_step(const GPipe& model, const LaneOptimizers& optimizers);
    /// Saves the model unless its last step is saved.
    void finish(const GPipe& model, const LaneOptimizers& optimizers);

    /// Path of the newest step that was saved or continued from; empty: none.
    const std::filesystem::path& newest() const { return newest_; }
    /// Time of each save of this run.
    const std::vector<Nanoseconds>& times() const { return times_; }
    /// The reason why the last save failed; empty if it did not.
    const std::string& failure() const { return failure_; }

private:
    void save(const GPipe& model, const LaneOptimizers& optimizers);

    std::optional<std::int64_t> every_;
    SaveFolder folder_;
    TrainingState state_;
    std::unique_ptr<SavedTraining> resumed_;
    std::filesystem::path newest_;
    std::int64_t last_tried_ = 0;  // the same on all ranks, as newest_ may not be
    bool is_only_process_;
    std::vector<Nanoseconds> times_;
    std::string failure_;
};
}  // namespace pipescope
