#pragma once

#include "save/safetensors.h"
#include "save/training_state.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
// A saved step is a folder: DIR/step-000010/ with training.json, and with two kinds of tensors, model and optimizer.
// Each kind has one file for each rank that saved, model-00001-of-00004.safetensors, and Hugging Face's index of them,
// model.safetensors.index.json. training.json has a checksum of each tensor.
//
// Errors: everything here throws SaveError. If a step is damaged, the message names the newest other step in its folder
// that is whole, which takes reading those steps.

enum class TensorKind { model, optimizer };
std::string_view to_string(TensorKind kind);

/// Names of files and folders. Ranks count from 0, file names from 1.
std::string name_of_step(std::int64_t step);
/// The step with this folder name. Empty if name_of_step() never gives the name.
std::optional<std::int64_t> step_of_name(const std::string& name);
std::string name_of_tensors(TensorKind kind, int rank, int num_ranks);
std::string name_of_index(TensorKind kind);
/// Only while a step is saved: the file with the checksums of the rank's files.
std::string name_of_checksums(int rank, int num_ranks);
inline constexpr const char* kTrainingFile = "training.json";

/// The saved steps in a folder, oldest first. A folder that does not exist has none.
std::vector<std::filesystem::path> saved_steps(const std::filesystem::path& folder);

/// The contents of the index of one kind of tensors.
struct TensorIndex {
    std::map<std::string, std::string> files;  ///< by name of tensor
    std::optional<std::uint64_t> total_bytes;  ///< of all tensors; other programs may leave it out
};
/// Throws unless each file is a plain name, because an index may come from others.
TensorIndex parse_tensor_index(std::string_view text);

TrainingRecord load_training_record(const std::filesystem::path& step);
SaveChecksums load_save_checksums(const std::filesystem::path& file);

/// The result of reading a whole step.
struct SavedStepCheck {
    std::string fault;  ///< names file, value and rule; empty: the step is whole
    bool has_checksums = false;
    std::int64_t tensors = 0;
    std::uint64_t bytes = 0;  ///< of the tensors
};
/// Reads every file of the step. Does not throw if it is damaged.
SavedStepCheck check_saved_step(const std::filesystem::path& step);

/// One kind of tensors of a saved step. Opens only the files that hold the tensors asked for. If the step has
/// checksums, compares them with the tensors and headers that are read, and with the names in the index. Threading: one
/// thread at a time.
class SavedTensors {
public:
    SavedTensors(std::filesystem::path step, TensorKind kind);
    /// Opens the step with `record`, its training.json.
    SavedTensors(std::filesystem::path step, TensorKind kind, const TrainingRecord& record);

    const std::filesystem::path& step() const noexcept { return step_; }
    /// The file of each tensor, by the tensor's name.
    const std::map<std::string, std::string>& files() const noexcept { return files_; }
    bool contains(const std::string& name) const { return files_.contains(name); }
    /// Throws unless contains(name).
    const StoredTensor& find(const std::string& name);
    void read(const std::string& name, std::span<std::byte> into);

private:
    struct OpenFile {
        OpenFile(const std::filesystem::path& path, std::optional<FileChecksums> checksums);
        SafetensorsFile file;
        std::map<std::string, const StoredTensor*> tensors;
    };
    OpenFile& file_of(const std::string& name);

    std::filesystem::path step_;
    TensorKind kind_;
    std::map<std::string, std::string> files_;
    std::optional<SaveChecksums> checksums_;
    std::map<std::string, std::unique_ptr<OpenFile>> open_;
};
}  // namespace pipescope
