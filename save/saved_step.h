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
// model.safetensors.index.json. training.json has a checksum of each tensor. Errors: everything here throws SaveError.
// What is said of a damaged step names the newest other step of its folder that is whole, which is read for that.

enum class TensorKind { model, optimizer };
std::string_view to_string(TensorKind kind);

/// Names of files and folders. Ranks count from 0, file names from 1.
std::string name_of_step(std::int64_t step);
/// Empty unless name_of_step() gives this name.
std::optional<std::int64_t> step_of_name(const std::string& name);
std::string name_of_tensors(TensorKind kind, int rank, int num_ranks);
std::string name_of_index(TensorKind kind);
/// While a step is saved only: the checksums of the rank's files.
std::string name_of_checksums(int rank, int num_ranks);
inline constexpr const char* kTrainingFile = "training.json";

/// The saved steps in a folder, oldest first. A folder that does not exist has none.
std::vector<std::filesystem::path> saved_steps(const std::filesystem::path& folder);

/// What an index says of the tensors of one kind.
struct TensorIndex {
    std::map<std::string, std::string> files;  ///< by name of tensor
    std::optional<std::uint64_t> total_bytes;  ///< of all tensors; other writers may leave it out
};
/// An index is data of others: throws unless each file is a plain name.
TensorIndex parse_tensor_index(std::string_view text);

TrainingRecord load_training_record(const std::filesystem::path& step);
SaveChecksums load_save_checksums(const std::filesystem::path& file);

/// What reading a whole step shows.
struct SavedStepCheck {
    std::string fault;  ///< names file, value and rule; empty: it is whole
    bool has_checksums = false;
    std::int64_t tensors = 0;
    std::uint64_t bytes = 0;  ///< of the tensors
};
/// Reads every file of the step. Does not throw if it is damaged.
SavedStepCheck check_saved_step(const std::filesystem::path& step);

/// One kind of tensors of a saved step. Opens only the files that hold the tensors asked for. Tensors and headers that
/// are read are compared with their checksums, if the step has any; the index, with the tensors that have some.
/// Threading: one thread at a time.
class SavedTensors {
public:
    SavedTensors(std::filesystem::path step, TensorKind kind);
    /// Likewise; `record` is the step's.
    SavedTensors(std::filesystem::path step, TensorKind kind, const TrainingRecord& record);

    const std::filesystem::path& step() const noexcept { return step_; }
    /// Names, in order, with their files.
    const std::map<std::string, std::string>& files() const noexcept { return files_; }
    bool contains(const std::string& name) const { return files_.contains(name); }
    /// Throws for a name that contains() does not know.
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
