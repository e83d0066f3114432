#include "cli/torch/training_saves.h"

#include "base/printable.h"
#include "cli/program.h"
#include "cli/torch/lane_optimizers.h"
#include "engine/gpipe.h"
#include "engine/saved_training.h"
#include "profiler/layers/free_memory.h"
#include "save/save_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

// A copy takes at most this part of the free memory, so that the training keeps room to grow.
constexpr std::uint64_t kShareOfRoom = 2;

/// The most bytes of a training that are copied to be written in the background.
std::uint64_t most_copied() {
    const std::optional<Bytes> room = free_memory(c10::kCPU);
    return room ? static_cast<std::uint64_t>(std::max<Bytes>(*room, 0)) / kShareOfRoom
                : std::numeric_limits<std::uint64_t>::max();
}

/// The warning if a run should be resumed but finds no save: it may have been given another folder than before.
std::string nothing_to_resume(const fs::path& folder) {
    std::string odd;  // the first name that resembles a save
    std::error_code ignored;
    for (fs::directory_iterator entry(folder, ignored); !ignored && entry != fs::directory_iterator();
         entry.increment(ignored)) {
        const std::string name = entry->path().filename().string();
        odd = name.starts_with("step-") && (odd.empty() || name < odd) ? name : odd;
    }
    return fmt::format(
        "{} holds no saved step{}, so --resume begins a new training; if there should be one, stop and check the name",
        folder.string(),
        odd.empty() ? "" : fmt::format(" ({} is none: a saved step is a folder such as step-000100)", odd));
}

/// Throws unless the save belongs to the training that is about to run.
void check_same(const SavedTraining& saved, const TrainingState& start) {
    const TrainingState& state = saved.state();
    const auto refuse = [&](const std::string& option, const std::string& was, const std::string& is) {
        throw SaveError(
            fmt::format("{} is of a run with {} {}; this run has {}; only the same training continues; use "
                        "{} {}, or another folder",
                        saved.path().string(), option, printable(was), printable(is), option, printable(was)));
    };
    if (state.model != start.model) {
        refuse("MODEL", state.model, start.model);
    }
    if (state.optimizer != start.optimizer) {
        refuse("--optimizer", state.optimizer, start.optimizer);
    }
    if (state.seed != start.seed) {
        refuse("--seed", std::to_string(state.seed), std::to_string(start.seed));
    }
}
}  // namespace

void check_save_options(const SaveOptions& options) {
    if (options.folder.empty() && (options.every || options.resume)) {
        throw UsageError(
            fmt::format("{} is given without --save; it needs the folder of the saved steps; add --save "
                        "DIR",
                        options.resume ? "--resume" : "--save-every"));
    }
    if (options.every && *options.every < 1) {
        throw UsageError(
            fmt::format("--save-every is {}; it counts the steps between saves; use 1 or more", *options.every));
    }
}

TrainingSaves::TrainingSaves(const SaveOptions& options, TrainingState start, SavingRanks ranks)
    : every_(options.every),
      folder_(options.folder, ranks),
      state_(std::move(start)),
      is_only_process_(ranks.num_ranks == 1) {
    const std::vector<std::filesystem::path> steps = saved_steps(options.folder);
    if (steps.empty()) {
        if (options.resume && ranks.rank == 0) {
            print_warnings({nothing_to_resume(options.folder)});
        }
        return;
    }
    if (!options.resume) {
        throw SaveError(fmt::format(
            "{} holds {} of an earlier run; a new training does not replace it; use --resume to continue, or another "
            "folder",
            options.folder.string(), steps.back().filename().string()));
    }
    resumed_ = std::make_unique<SavedTraining>(steps.back());
    check_same(*resumed_, state_);
    if (!resumed_->has_checksums() && ranks.rank == 0) {
        print_warnings(
            {fmt::format("{} has no checksums, as an earlier version saved it; damage inside its tensors "
                         "cannot be noticed; the next save has some",
                         resumed_->path().string())});
    }
    newest_ = resumed_->path();
    last_tried_ = resumed_->state().step;
}

TrainingSaves::~TrainingSaves() = default;

std::int64_t TrainingSaves::steps_done() const {
    return resumed_ ? resumed_->state().step : 0;
}

void TrainingSaves::restore(GPipe& model, LaneOptimizers& optimizers) {
    check_savable(model);
    if (resumed_) {
        resumed_->load(model, is_only_process_);
        optimizers.load(*resumed_, model);
        resumed_->load_random(folder_.rank());
    }
}

void TrainingSaves::after_step(const GPipe& model, const LaneOptimizers& optimizers) {
    if (folder_.is_saving() && folder_.is_written()) {
        end_save();
    }
    if (is_due(model.next_step())) {
        begin_save(model, optimizers, most_copied());
    }
}

void TrainingSaves::finish(const GPipe& model, const LaneOptimizers& optimizers) {
    if (model.next_step() > last_tried_) {
        begin_save(model, optimizers, 0);  // nothing would go on meanwhile
    }
    if (folder_.is_saving()) {
        end_save();
    }
}

void TrainingSaves::begin_save(const GPipe& model, const LaneOptimizers& optimizers, std::uint64_t most_bytes) {
    const auto started = std::chrono::steady_clock::now();
    if (folder_.is_saving()) {
        end_save();
    }
    state_.step = model.next_step();
    last_tried_ = state_.step;
    begin_saving(folder_, state_, model, optimizers.all(), most_bytes);
    pause_ = std::chrono::steady_clock::now() - started;
}

void TrainingSaves::end_save() {
    const auto started = std::chrono::steady_clock::now();
    try {
        newest_ = folder_.finish();
        times_.push_back(folder_.last_duration());
        pauses_.push_back(pause_ + (std::chrono::steady_clock::now() - started));
        failure_.clear();
    } catch (const SaveError& error) {
        if (failure_.empty()) {
            print_warnings(
                {fmt::format("step {} is not saved, and the training continues: {}", state_.step, error.what())});
        }
        failure_ = error.what();
    }
}
}  // namespace pipescope
