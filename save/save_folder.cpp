#include "save/save_folder.h"

#include "save/durable_file.h"
#include "save/save_error.h"
#include "save/save_json.h"
#include "save/saved_step.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <regex>
#include <system_error>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";

/// True for the name of a file in a saved step.
bool is_of_save(const std::string& name) {
    static const std::regex names(
        R"(training\.json|checksums-\d{5,}-of-\d{5,}\.json|(model|optimizer)(-\d{5,}-of-\d{5,}\.safetensors|\.safetensors\.index\.json))");
    return std::regex_match(name, names);
}

/// True for the name of a step's folder, finished or not.
bool is_step(std::string name) {
    if (name.ends_with(kPartial)) {
        name.resize(name.size() - kPartial.size());
    }
    return step_of_name(name).has_value();
}

std::vector<fs::path> entries_of(const fs::path& folder) {
    std::error_code ignored;
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(folder, ignored); !ignored && entry != fs::directory_iterator();
         entry.increment(ignored)) {
        entries.push_back(entry->path());
    }
    return entries;
}

bool is_real_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

/// Removes the files of an unfinished step. Removes its folder too, unless it contains other files.
void remove_partial(const fs::path& partial) {
    if (!is_real_folder(partial)) {
        return;
    }
    std::error_code ignored;
    for (const fs::path& file : entries_of(partial)) {
        if (is_of_save(file.filename())) {
            fs::remove(file, ignored);
        }
    }
    fs::remove(partial, ignored);
}

void remove_left_over(const fs::path& folder) {
    for (const fs::path& each : entries_of(folder)) {
        if (const std::string name = each.filename(); name.starts_with("step-") && name.ends_with(kPartial)) {
            remove_partial(each);
        }
    }
}

/// Renames a step before removing it, so that a killed process leaves no half of a step. A step with other files stays.
void remove_old_steps(const fs::path& folder) {
    std::vector<fs::path> steps = saved_steps(folder);
    steps.resize(steps.size() - std::min<std::size_t>(steps.size(), SaveFolder::kKept));
    for (const fs::path& step : steps) {
        const std::vector<fs::path> entries = entries_of(step);
        if (is_real_folder(step) && std::all_of(entries.begin(), entries.end(),
                                                [](const fs::path& each) { return is_of_save(each.filename()); })) {
            const fs::path partial = step.string() + std::string(kPartial);
            std::error_code error;
            fs::rename(step, partial, error);
            if (!error) {
                remove_partial(partial);
            }
        }
    }
}

void make_partial(const fs::path& partial, const fs::path& step) {
    if (fs::symlink_status(step).type() != fs::file_type::not_found) {
        throw SaveError(step.string() +
                        " exists already; a save replaces nothing; move it away, or save into another "
                        "folder");
    }
    remove_partial(partial);
    std::error_code error;
    if (!fs::create_directory(partial, error)) {
        throw SaveError(partial.string() + " cannot be made (" +
                        (error ? error.message() : std::string("it holds files of others")) +
                        "); move it away, or save into another folder");
    }
}

/// Writes the index over the files of all ranks, from their headers.
void write_index(const fs::path& partial, TensorKind kind, int num_ranks) {
    std::map<std::string, std::string> files;
    std::uint64_t total = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
        const std::string name = name_of_tensors(kind, rank, num_ranks);
        if (!fs::exists(partial / name)) {
            throw SaveError("rank " + std::to_string(rank) + " could not write " + name +
                            ", so the step is not whole; see the warning of that rank");
        }
        const SafetensorsFile file(partial / name);
        for (const StoredTensor& tensor : file.header().tensors) {
            if (const auto [first, is_new] = files.emplace(tensor.name, name); !is_new) {
                throw SaveError(first->second + " and " + name + " both hold the tensor " + shown(tensor.name) +
                                "; each tensor is saved by one rank");
            }
            total += tensor.end - tensor.begin;
        }
    }
    const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", files}};
    DurableFile file(partial / name_of_index(kind));
    file.write(index.dump(2) + "\n");
    file.finish();
}

/// Reads the checksums that every rank left for rank 0, and removes these files.
SaveChecksums take_checksums(const fs::path& partial, int num_ranks) {
    SaveChecksums all;
    for (int rank = 0; rank < num_ranks; ++rank) {
        const fs::path path = partial / name_of_checksums(rank, num_ranks);
        all.merge(load_save_checksums(path));
        fs::remove(path);
    }
    return all;
}
}  // namespace

bool is_part_of_save(const fs::path& path) {
    return is_of_save(path.filename()) && is_step(fs::absolute(path).lexically_normal().parent_path().filename());
}

bool is_in_step_of(const fs::path& folder, const fs::path& path) {
    std::error_code ignored;
    const fs::path inside = fs::weakly_canonical(fs::absolute(path), ignored)
                                .lexically_relative(fs::weakly_canonical(fs::absolute(folder), ignored));
    return !inside.empty() && is_step(inside.begin()->string());
}

/// A step that is being saved. Until its thread has ended, only the thread uses `failure` and `end`.
struct SaveFolder::Saving {
    Saving(const TrainingState& saved, const fs::path& folder)
        : state(saved), step(folder / name_of_step(state.step)), partial(step.string() + std::string(kPartial)) {}

    /// Does the work unless something failed before.
    template <class Work>
    void attempt(const Work& work) {
        try {
            if (!failure) {
                work();
            }
        } catch (...) {
            failure = std::current_exception();
        }
    }
    void join() {
        if (thread.joinable()) {
            thread.join();
        }
    }

    const TrainingState state;
    const fs::path step;
    const fs::path partial;
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point end;
    std::exception_ptr failure;
    std::atomic<bool> is_written = false;
    std::thread thread;
};

SaveFolder::SaveFolder(fs::path folder, SavingRanks ranks) : path_(std::move(folder)), ranks_(std::move(ranks)) {
    if (!is_first()) {
        return;
    }
    std::error_code error;
    fs::create_directory(path_, error);
    if (error) {
        throw SaveError(path_.string() + " cannot be made a folder of saved steps (" + error.message() +
                        "); name a folder to save into");
    }
    if (access(path_.c_str(), R_OK | W_OK | X_OK) != 0) {
        throw_file_error(path_, "written");
    }
    lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) {
        throw_file_error(path_, "opened");
    }
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // some file systems cannot lock
        close(lock_);
        throw SaveError("another run saves into " + path_.string() +
                        "; a folder takes the steps of one run at a time; wait for it, or save into another folder");
    }
    remove_left_over(path_);
}

SaveFolder::~SaveFolder() {
    if (saving_) {
        saving_->join();
        if (saving_->failure && is_first()) {
            remove_partial(saving_->partial);
        }
    }
    if (lock_ >= 0) {
        close(lock_);
    }
}

void SaveFolder::meet() const {
    if (ranks_.barrier) {
        ranks_.barrier();
    }
}

fs::path SaveFolder::save(const TrainingState& state, TensorsToSave tensors) {
    begin(state, std::move(tensors), Writing::at_once);
    return finish();
}

void SaveFolder::begin(const TrainingState& state, TensorsToSave tensors, Writing writing) {
    saving_ = std::make_unique<Saving>(state, path_);
    Saving& saving = *saving_;
    // Every rank takes part in every meeting, so that no rank waits for one that failed.
    if (is_first()) {
        saving.attempt([&] { make_partial(saving.partial, saving.step); });
    }
    meet();
    const auto write = [this, &saving, own = std::make_shared<TensorsToSave>(std::move(tensors))] {
        saving.attempt([&] { write_own(saving.partial, std::move(*own)); });
        if (ranks_.num_ranks == 1) {
            saving.attempt([&] { publish(saving.partial, saving.step, saving.state); });
        }
        saving.end = std::chrono::steady_clock::now();
        saving.is_written = true;
    };
    if (writing == Writing::in_background) {
        try {
            saving.thread = std::thread(write);
            return;
        } catch (const std::system_error&) {  // no thread is left
        }
    }
    write();
}

bool SaveFolder::is_written() const {
    return ranks_.all ? ranks_.all(saving_->is_written) : bool{saving_->is_written};
}

fs::path SaveFolder::finish() {
    const std::unique_ptr<Saving> saving = std::move(saving_);
    saving->join();
    last_duration_ = saving->end - saving->start;
    meet();
    if (is_first() && ranks_.num_ranks > 1) {
        saving->attempt([&] { publish(saving->partial, saving->step, saving->state); });
    }
    meet();
    if (saving->failure) {
        if (is_first()) {
            remove_partial(saving->partial);
        }
        std::rethrow_exception(saving->failure);
    }
    if (!is_real_folder(saving->step)) {
        throw SaveError(saving->step.string() + " is not there; another rank could not save; see its error");
    }
    return saving->step;
}

void SaveFolder::write_own(const fs::path& partial, TensorsToSave tensors) const {
    std::map<std::string, std::string> metadata = std::move(tensors.shared);
    metadata["format"] = "pt";  // other readers require it
    SaveChecksums checksums;
    const auto write = [&](TensorKind kind, std::vector<TensorToWrite>& own,
                           std::map<std::string, std::string> of_file) {
        const std::string name = name_of_tensors(kind, ranks_.rank, ranks_.num_ranks);
        checksums[name] = write_safetensors(partial / name, std::move(own), std::move(of_file));
    };
    write(TensorKind::model, tensors.model, std::move(metadata));
    write(TensorKind::optimizer, tensors.optimizer, {{"format", "pt"}});
    DurableFile file(partial / name_of_checksums(ranks_.rank, ranks_.num_ranks));
    file.write(to_json(checksums));
    file.finish();
}

void SaveFolder::publish(const fs::path& partial, const fs::path& step, const TrainingState& state) const {
    for (const TensorKind kind : {TensorKind::model, TensorKind::optimizer}) {
        write_index(partial, kind, ranks_.num_ranks);
    }
    {
        DurableFile file(partial / kTrainingFile);
        file.write(to_json(TrainingRecord{state, take_checksums(partial, ranks_.num_ranks)}));
        file.finish();
    }
    sync_folder(partial);
    if (rename(partial.c_str(), step.c_str()) != 0) {
        throw_file_error(step, "made");
    }
    sync_folder(path_);
    remove_old_steps(path_);
}
}  // namespace pipescope
