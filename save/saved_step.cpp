#include "save/saved_step.h"

#include "save/save_error.h"
#include "save/strict_json.h"
#include "schedule/number_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 6;
constexpr std::uintmax_t kMostJsonBytes = 100'000'000;

std::string padded(std::int64_t number, int digits) {
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%0*lld", digits, static_cast<long long>(number));
    return {text.data(), static_cast<std::size_t>(length)};
}

/// Empty unless name_of_step() gives this name.
std::optional<std::int64_t> step_of_name(const std::string& name) {
    if (!name.starts_with(kStepPrefix) || name.size() < kStepPrefix.size() + kStepDigits) {
        return std::nullopt;
    }
    const auto step = number_in<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
    return step && *step >= 0 && name_of_step(*step) == name ? step : std::nullopt;
}

/// Reads a small file with `parse`, and names the file and a remedy in its errors.
template <class Parse>
auto parse_file(const fs::path& path, Parse parse) {
    const std::string remedy = "; to continue from an older save, move " + path.parent_path().string() + " away";
    std::error_code error;
    const std::uintmax_t bytes = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    std::ifstream file(path, std::ios::binary);
    if (!file || error || bytes == 0 || bytes > kMostJsonBytes) {
        throw SaveError(path.string() + " cannot be read; a whole save has this file, with 1 to " +
                        std::to_string(kMostJsonBytes) + " bytes" + remedy);
    }
    std::ostringstream text;
    text << file.rdbuf();
    try {
        return parse(text.str());
    } catch (const SaveError& fault) {
        throw SaveError(path.string() + ": " + fault.what() + remedy);
    }
}
}  // namespace

std::string_view to_string(TensorKind kind) {
    return kind == TensorKind::model ? "model" : "optimizer";
}

std::string name_of_step(std::int64_t step) {
    return std::string(kStepPrefix) + padded(step, kStepDigits);
}

std::string name_of_tensors(TensorKind kind, int rank, int num_ranks) {
    return std::string(to_string(kind)) + "-" + padded(rank + 1, 5) + "-of-" + padded(num_ranks, 5) + ".safetensors";
}

std::string name_of_index(TensorKind kind) {
    return std::string(to_string(kind)) + ".safetensors.index.json";
}

std::vector<fs::path> saved_steps(const fs::path& folder) {
    std::map<std::int64_t, fs::path> steps;
    std::error_code error;
    if (!fs::exists(folder, error) && !error) {
        return {};
    }
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        std::error_code ignored;
        if (const auto step = step_of_name(entry->path().filename()); step && entry->is_directory(ignored)) {
            steps.emplace(*step, entry->path());
        }
    }
    if (error) {
        throw SaveError(folder.string() + " cannot be read (" + error.message() + "); name a folder of saved steps");
    }
    std::vector<fs::path> paths;
    for (const auto& [step, path] : steps) {
        paths.push_back(path);
    }
    return paths;
}

std::map<std::string, std::string> parse_tensor_index(std::string_view text) {
    const nlohmann::json object = parse_strict_json(text);
    const nlohmann::json& map = member(object, "weight_map");
    if (!map.is_object()) {
        throw SaveError("\"weight_map\" is " + shown(map) + "; it must map names of tensors to files");
    }
    std::map<std::string, std::string> files;
    for (const auto& [name, file] : map.items()) {
        const std::string plain = file.is_string() ? file.get<std::string>() : "";
        if (plain.empty() || plain.starts_with('.') ||
            plain.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
            throw SaveError("the file of the tensor " + shown(name) + " is " + shown(file) +
                            "; it must be the name of a file in the index's folder");
        }
        files.emplace(name, plain);
    }
    return files;
}

TrainingState load_training_state(const fs::path& step) {
    return parse_file(step / kTrainingFile, [&](std::string_view text) {
        const TrainingState state = parse_training_state(text);
        if (const auto named = step_of_name(step.filename()); named && *named != state.step) {
            throw SaveError("\"step\" is " + std::to_string(state.step) + " in the folder of step " +
                            std::to_string(*named));
        }
        return state;
    });
}

SavedTensors::SavedTensors(fs::path step, TensorKind kind)
    : step_(std::move(step)), files_(parse_file(step_ / name_of_index(kind), parse_tensor_index)) {}

SavedTensors::OpenFile::OpenFile(const fs::path& path) : file(path) {
    for (const StoredTensor& tensor : file.header().tensors) {
        tensors.emplace(tensor.name, &tensor);
    }
}

SavedTensors::OpenFile& SavedTensors::file_of(const std::string& name) {
    const auto found = files_.find(name);
    if (found == files_.end()) {
        throw SaveError(step_.string() + " holds no tensor " + shown(name));
    }
    std::unique_ptr<OpenFile>& file = open_[found->second];
    try {
        if (!file) {
            file = std::make_unique<OpenFile>(step_ / found->second);
        }
        if (!file->tensors.contains(name)) {
            throw SaveError(file->file.path().string() + " holds no tensor " + shown(name) + ", which the index names");
        }
    } catch (const SaveError& error) {
        throw SaveError(error.what() + ("; copy the file again, or move " + step_.string()) +
                        " away to continue from an older save");
    }
    return *file;
}

const StoredTensor& SavedTensors::find(const std::string& name) {
    return *file_of(name).tensors.at(name);
}

void SavedTensors::read(const std::string& name, std::span<std::byte> into) {
    OpenFile& open = file_of(name);
    open.file.read(*open.tensors.at(name), into);
}
}  // namespace pipescope
