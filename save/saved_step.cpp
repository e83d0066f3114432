#include "save/saved_step.h"

#include "base/number_text.h"
#include "base/text_file.h"
#include "save/save_error.h"
#include "save/save_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 6;

SaveError no_such_tensor(const SafetensorsFile& file, const std::string& name) {
    return SaveError(file.path().string() + " holds no tensor " + shown(name) + ", which the index names");
}

std::string padded(std::int64_t number, int digits) {
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%0*lld", digits, static_cast<long long>(number));
    return {text.data(), static_cast<std::size_t>(length)};
}

/// Throws for a link, which could lead to a file of another save or outside all saves.
void require_own_file(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
        throw SaveError(path.string() + " is a link; a save consists of files of its own; copy the file itself");
    }
}

/// Reads a small file with `parse`, and names the file in its errors.
template <class Parse>
auto parse_file(const fs::path& path, Parse parse) {
    require_own_file(path);
    const std::string text =
        read_text_as<SaveError>(path, {"a file of a save", "copy the whole save again", TextFile::Kind::file});
    try {
        return parse(text);
    } catch (const SaveError& fault) {
        throw SaveError(path.string() + ": " + fault.what());
    }
}

TrainingRecord read_record(const fs::path& step) {
    return parse_file(step / kTrainingFile, [&](std::string_view text) {
        TrainingRecord record = parse_training_record(text);
        if (const auto named = step_of_name(step.filename()); named && *named != record.state.step) {
            throw SaveError("step is " + std::to_string(record.state.step) + " in the folder of step " +
                            std::to_string(*named));
        }
        return record;
    });
}

std::optional<FileChecksums> checksums_of(const std::optional<SaveChecksums>& all, const fs::path& file) {
    if (!all) {
        return std::nullopt;
    }
    const auto found = all->find(file.filename());
    if (found == all->end()) {
        throw SaveError(file.string() + " has no checksums in " + kTrainingFile + "; each file of a save has some");
    }
    return found->second;
}

std::string missing_in_index(const fs::path& index, const std::string& tensor, const std::string& file) {
    return index.string() + " does not name the tensor " + shown(tensor) + ", which " + file +
           " holds; an index names every tensor of a save; it was changed since it was saved";
}

/// Reads the index. Throws if it lacks a tensor that has a checksum: that tensor would silently not be loaded.
TensorIndex read_index(const fs::path& step, TensorKind kind, const std::optional<SaveChecksums>& checksums) {
    const fs::path path = step / name_of_index(kind);
    TensorIndex index = parse_file(path, parse_tensor_index);
    if (!checksums) {
        return index;
    }
    for (const auto& [file, of_file] : *checksums) {
        if (!file.starts_with(std::string(to_string(kind)) + "-")) {
            continue;
        }
        for (const auto& [tensor, checksum] : of_file.tensors) {
            const auto named = index.files.find(tensor);
            if (named == index.files.end()) {
                throw SaveError(missing_in_index(path, tensor, file));
            }
            if (named->second != file) {
                throw SaveError(path.string() + " names the file " + shown(named->second) + " for the tensor " +
                                shown(tensor) + ", which " + file + " holds; it was changed since it was saved");
            }
        }
    }
    return index;
}

/// True for the tensor in Adam's state that counts a parameter's updates.
bool is_count(TensorKind kind, const StoredTensor& tensor) {
    return kind == TensorKind::optimizer && tensor.name.ends_with(".step") && tensor.dtype == "I64" &&
           tensor.shape.empty();
}

void require_count(const SafetensorsFile& file, const StoredTensor& tensor, std::span<const std::byte> bytes) {
    std::int64_t count = 0;
    std::memcpy(&count, bytes.data(), sizeof(count));
    if (count < 0) {
        throw SaveError(file.path().string() + ": " + shown(tensor.name) + " is " + std::to_string(count) +
                        "; an optimizer counts its updates from 0");
    }
}

/// Reads all tensors of one kind.
void check_tensors(const fs::path& step, TensorKind kind, const TrainingRecord& record, SavedStepCheck& check) {
    const TensorIndex index = read_index(step, kind, record.checksums);
    std::map<std::string, std::set<std::string>> names;  // by file
    for (const auto& [name, file] : index.files) {
        names[file].insert(name);
    }
    std::uint64_t bytes = 0;
    for (auto& [name, indexed] : names) {
        require_own_file(step / name);
        const SafetensorsFile file(step / name, checksums_of(record.checksums, step / name));
        for (const StoredTensor& tensor : file.header().tensors) {
            if (is_count(kind, tensor)) {
                std::int64_t count = 0;
                const auto into = std::as_writable_bytes(std::span(&count, 1));
                file.read(tensor, into);
                require_count(file, tensor, into);
            } else {
                file.check(tensor);
            }
            if (indexed.erase(tensor.name) == 0) {
                throw SaveError(missing_in_index(step / name_of_index(kind), tensor.name, name));
            }
            ++check.tensors;
            bytes += tensor.end - tensor.begin;
        }
        if (!indexed.empty()) {
            throw no_such_tensor(file, *indexed.begin());
        }
    }
    if (index.total_bytes && *index.total_bytes != bytes) {
        throw SaveError((step / name_of_index(kind)).string() + ": total_size is " +
                        std::to_string(*index.total_bytes) + ", and its tensors have " + std::to_string(bytes) +
                        " bytes; the index was changed since it was saved");
    }
    check.bytes += bytes;
}

/// Says how to continue without this step.
std::string way_out(const fs::path& step) {
    const fs::path folder = step.has_parent_path() ? step.parent_path() : fs::path(".");
    std::vector<fs::path> others = saved_steps(folder);
    std::reverse(others.begin(), others.end());
    for (const fs::path& other : others) {
        if (other.filename() != step.filename() && check_saved_step(other).fault.empty()) {
            return "; the newest save that is whole is " + other.string() + "; to continue from there, move " +
                   step.string() + " away";
        }
    }
    return "; no other save in " + folder.string() +
           " is whole; copy the file again from where the save was made, or move " + step.string() +
           " away to start from the beginning";
}

/// Runs `work` and adds way_out() to its errors.
template <class Work>
auto with_way_out(const fs::path& step, Work work) {
    try {
        return work();
    } catch (const SaveError& error) {
        throw SaveError(error.what() + way_out(step));
    }
}
}  // namespace

std::string_view to_string(TensorKind kind) {
    return kind == TensorKind::model ? "model" : "optimizer";
}

std::string name_of_step(std::int64_t step) {
    return std::string(kStepPrefix) + padded(step, kStepDigits);
}

std::optional<std::int64_t> step_of_name(const std::string& name) {
    if (!name.starts_with(kStepPrefix) || name.size() < kStepPrefix.size() + kStepDigits) {
        return std::nullopt;
    }
    const auto step = number_in<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
    return step && *step >= 0 && name_of_step(*step) == name ? step : std::nullopt;
}

std::string name_of_tensors(TensorKind kind, int rank, int num_ranks) {
    return std::string(to_string(kind)) + "-" + padded(rank + 1, 5) + "-of-" + padded(num_ranks, 5) + ".safetensors";
}

std::string name_of_index(TensorKind kind) {
    return std::string(to_string(kind)) + ".safetensors.index.json";
}

std::string name_of_checksums(int rank, int num_ranks) {
    return "checksums-" + padded(rank + 1, 5) + "-of-" + padded(num_ranks, 5) + ".json";
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

TensorIndex parse_tensor_index(std::string_view text) {
    const auto document = parse_json<nlohmann::json>(text, kSaveJson);
    SaveObject object = SaveValue(document, "", kSaveJson).object();
    TensorIndex index;
    object.at("weight_map")
        .object("an object of tensors and files")
        .for_each([&](const std::string& name, const SaveValue& file) {
            constexpr std::string_view kWanted = "the name of a file in the index's folder";
            const std::string& plain = file.filled_text(kWanted);
            if (plain.starts_with('.') || plain.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
                file.refuse(kWanted);
            }
            index.files.emplace(name, plain);
        });
    if (const std::optional<SaveValue> metadata = object.find("metadata")) {
        SaveObject facts = metadata->object();
        if (const std::optional<SaveValue> total = facts.find("total_size")) {
            index.total_bytes = total->natural();
        }
    }
    return index;
}

TrainingRecord load_training_record(const fs::path& step) {
    return with_way_out(step, [&] { return read_record(step); });
}

SaveChecksums load_save_checksums(const fs::path& file) {
    return parse_file(file, parse_save_checksums);
}

SavedStepCheck check_saved_step(const fs::path& step) {
    SavedStepCheck check;
    try {
        const TrainingRecord record = read_record(step);
        check.has_checksums = record.checksums.has_value();
        for (const TensorKind kind : {TensorKind::model, TensorKind::optimizer}) {
            check_tensors(step, kind, record, check);
        }
    } catch (const SaveError& error) {
        check.fault = error.what();
    }
    return check;
}

SavedTensors::SavedTensors(fs::path step, TensorKind kind) : SavedTensors(step, kind, load_training_record(step)) {}

SavedTensors::SavedTensors(fs::path step, TensorKind kind, const TrainingRecord& record)
    : step_(std::move(step)),
      kind_(kind),
      files_(with_way_out(step_, [&] { return read_index(step_, kind, record.checksums).files; })),
      checksums_(record.checksums) {}

SavedTensors::OpenFile::OpenFile(const fs::path& path, std::optional<FileChecksums> checksums)
    : file(path, std::move(checksums)) {
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
    with_way_out(step_, [&] {
        if (!file) {
            const fs::path path = step_ / found->second;
            require_own_file(path);
            auto opened = std::make_unique<OpenFile>(path, checksums_of(checksums_, path));
            for (const auto& [tensor, stored] : opened->tensors) {
                if (!files_.contains(tensor)) {
                    throw SaveError(missing_in_index(step_ / name_of_index(kind_), tensor, found->second));
                }
            }
            file = std::move(opened);
        }
        if (!file->tensors.contains(name)) {
            throw no_such_tensor(file->file, name);
        }
    });
    return *file;
}

const StoredTensor& SavedTensors::find(const std::string& name) {
    return *file_of(name).tensors.at(name);
}

void SavedTensors::read(const std::string& name, std::span<std::byte> into) {
    const OpenFile& open = file_of(name);
    with_way_out(step_, [&] {
        const StoredTensor& tensor = *open.tensors.at(name);
        open.file.read(tensor, into);
        if (is_count(kind_, tensor)) {
            require_count(open.file, tensor, into);
        }
    });
}
}  // namespace pipescope
