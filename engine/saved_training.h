#pragma once

#include "save/save_folder.h"
#include "save/saved_step.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace pipescope {
class GPipe;

// A training on the disk, to continue from:
//     SaveFolder folder("saves");
//     save_training(folder, {.step = model.next_step(), .model = "mine"}, model, {&optimizer});
// and in another process, with the same layers under any balance, schedule and number of lanes:
//     SavedTraining saved(saved_steps("saves").back());
//     saved.load(model);
//     saved.load(optimizer, model);
//     saved.load_random();
// Tensors have the names of GPipe::state_dict(); an optimizer's state has its parameter's, as in "0.weight.exp_avg".
// Supports SGD, Adam and AdamW of torch::optim. Their options, such as the learning rate, are the program's own.
// Random numbers inside layers depend on seed and step only; load_random() continues those drawn elsewhere, on the CPU.
// Threading: one thread, between steps.

/// Saves the model's tensors, the state of its optimizers and that of torch's default CPU generator as one step of the
/// folder, and returns its path. A tensor that several names share is stored once, under the first. Blocks until
/// everything is on the disk. Throws SaveError (disk full, read-only folder, ..), or EngineError for an optimizer or a
/// dtype that has no stored form, or an optimizer of parameters that are not the model's.
std::filesystem::path save_training(SaveFolder& folder, const TrainingState& state, const GPipe& model,
                                    const std::vector<torch::optim::Optimizer*>& optimizers);

/// Begins what save_training() does and returns once the training may go on: the tensors are copied into the host's
/// memory, and a thread of the folder writes the copies. folder.finish() waits for the thread and returns the path. If
/// the copies would need more than `most_copied` bytes, nothing is copied, and the call returns once the files are
/// written. Throws EngineError as save_training() does; other errors come from finish(). Precondition:
/// !folder.is_saving().
void begin_saving(SaveFolder& folder, const TrainingState& state, const GPipe& model,
                  const std::vector<torch::optim::Optimizer*>& optimizers,
                  std::uint64_t most_copied = std::numeric_limits<std::uint64_t>::max());

/// Throws the EngineError that save_training() would throw for the model, so that a long training need not end with it.
void check_savable(const GPipe& model);

/// A saved step, to be loaded. The parts of one training may be loaded by other processes than those that saved it;
/// each reads the tensors of its own layers.
class SavedTraining {
public:
    /// Throws SaveError if training.json or an index is damaged. A damaged tensor is noticed once it is loaded.
    explicit SavedTraining(const std::filesystem::path& step);

    const std::filesystem::path& path() const noexcept { return model_.step(); }
    const TrainingState& state() const noexcept { return state_; }
    /// False for saves of earlier versions: damage inside their tensors is not noticed.
    bool has_checksums() const noexcept { return has_checksums_; }
    /// Loads parameters and buffers, and sets next_step(). Throws SaveError if a tensor is missing, of another shape or
    /// dtype, or unknown to the model, unless it is only a part of what was saved; the model is then unchanged. After a
    /// file that could not be read, its values are undefined.
    void load(GPipe& model, bool is_whole = true);
    /// Loads the state of the optimizer, whose parameters are the model's. Throws like the above, or EngineError.
    void load(torch::optim::Optimizer& optimizer, const GPipe& model);
    /// Sets torch's default CPU generator, from which a program draws outside layers, to the state that it had in the
    /// process of this rank, or in that of rank 0 if there were fewer. False: the save holds no such state, as those of
    /// earlier versions. Throws SaveError.
    bool load_random(int rank = 0);

private:
    SavedTraining(const std::filesystem::path& step, const TrainingRecord& record);

    TrainingState state_;
    bool has_checksums_;
    SavedTensors model_;
    SavedTensors optimizer_;
};
}  // namespace pipescope
