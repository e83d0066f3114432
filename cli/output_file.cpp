#include "cli/output_file.h"

#include "cli/stop_signals.h"
#include "save/durable_file.h"
#include "schedule/error.h"
#include "simulator/schedule_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <ostream>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

[[noreturn]] void refuse_existing_output(const fs::path& path) {
    throw Error(fmt::format("{} exists already; an existing file is kept; use --force to replace it, or another name",
                            path.string()));
}

[[noreturn]] void refuse_output(const fs::path& path) {
    throw Error(fmt::format("{} cannot be written ({}); free some space or choose another folder", path.string(),
                            std::strerror(errno)));
}

/// Makes an empty file. Its name can be guessed, so in a shared folder somebody may have put a link there.
void make_new(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);  // left by a killed process that had our number
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        refuse_output(path);
    }
    close(file);
}

/// Renames the file unless the name is taken. Returns false, with errno, if it is, or if that fails.
bool rename_to_free_name(const fs::path& from, const fs::path& to) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
        return true;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return false;
    }
    // A file system without that, such as NFS. A second name is given under the same condition.
    return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;
}

/// Gives the finished file its name, once its bytes are on the disk: after a power failure there is the old file or the
/// new one. Without `force`, a file that another process made meanwhile is kept.
void publish_output(const fs::path& from, const fs::path& to, bool force) {
    const int file = open(from.c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_on_disk = file >= 0 && (fsync(file) == 0 || errno == EINVAL);  // EINVAL: there is none to wait for
    const int error = errno;
    if (file >= 0) {
        close(file);
    }
    errno = error;
    if (!is_on_disk) {
        refuse_output(to);
    }
    if (force ? rename(from.c_str(), to.c_str()) != 0 : !rename_to_free_name(from, to)) {
        if (errno == EEXIST) {
            refuse_existing_output(to);
        }
        refuse_output(to);
    }
    sync_folder(folder_of(to));
}
}  // namespace

void check_output_name(const fs::path& path, bool force) {
    std::error_code ignored;
    const fs::file_status there = fs::symlink_status(path, ignored);  // a link that leads nowhere is somebody's, too
    if (fs::is_directory(path, ignored)) {
        throw Error(fmt::format("{} is a folder; the output must be a file; add a file name", path.string()));
    }
    if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
        throw Error(fmt::format(
            "{} is a device or a pipe; an output is a regular file, which replaces what had its name; use another name",
            path.string()));
    }
    if (fs::exists(there) && !force) {
        refuse_existing_output(path);
    }
    const fs::path folder = folder_of(path);
    if (!fs::is_directory(folder, ignored)) {
        throw Error(fmt::format("{} cannot be written; the folder {} does not exist; make it first", path.string(),
                                folder.string()));
    }
}

void check_output(const fs::path& path, bool force) {
    check_output_name(path, force);
    const fs::path folder = folder_of(path);
    if (access(folder.c_str(), W_OK | X_OK) != 0) {
        throw Error(fmt::format("{} cannot be written; the folder {} is not writable ({}); choose another",
                                path.string(), folder.string(), std::strerror(errno)));
    }
}

void check_schedule_output(const fs::path& path, bool force) {
    if (!is_schedule_file(path.string())) {
        throw UsageError(
            fmt::format("{} is no name for a schedule; --schedule reads files that end in .csv; try {}.csv",
                        path.string(), path.stem().string()));
    }
    check_output(path, force);
}

void check_not_input(const fs::path& output, const fs::path& input) {
    std::error_code ignored;
    for (const char* beside : {"", "-wal", ".notes.json"}) {  // what belongs to a trace
        if (fs::equivalent(output, input.string() + beside, ignored)) {
            throw Error(fmt::format("{} is {}the input; the output would replace it; choose another output",
                                    output.string(), *beside == '\0' ? "" : "a part of "));
        }
    }
}

void check_outputs_are_no_inputs(const CLI::App& command) {
    const auto is_output = [](const CLI::Option* option) {
        return option->get_group() == "Output" && option->get_type_name() == "FILE";
    };
    const std::vector<const CLI::Option*> options = command.get_options();
    for (const CLI::Option* output : options) {
        if (!is_output(output)) {
            continue;
        }
        for (const std::string& file : output->results()) {
            for (const CLI::Option* input : options) {
                if (is_output(input)) {
                    continue;
                }
                for (const std::string& value : input->results()) {
                    check_not_input(file, value);
                    check_not_input(file, value.substr(0, value.find(':')));  // net.pt:input=3
                }
            }
        }
    }
}

void check_apart(const std::string& first_option, const fs::path& first, const std::string& second_option,
                 const fs::path& second) {
    if (!first.empty() && !second.empty() &&
        fs::absolute(first).lexically_normal() == fs::absolute(second).lexically_normal()) {
        throw UsageError(fmt::format("{} and {} are both {}; each writes its own file; change one name", first_option,
                                     second_option, second.string()));
    }
}

void replace_output(const fs::path& path, bool force, const std::function<void(const fs::path&)>& write) {
    check_output(path, force);
    const std::string beside = path.string() + fmt::format(".{}.partial", getpid());
    const std::vector<fs::path> files = {beside, beside + "-wal", beside + "-shm"};  // SQLite keeps these two beside it
    const RemovedWhenKilled removed(files);
    try {
        write(beside);
        publish_output(beside, path, force);
    } catch (...) {
        for (const fs::path& file : files) {
            std::error_code ignored;
            fs::remove(file, ignored);
        }
        throw;
    }
}

void write_output(const fs::path& path, bool force, const std::function<void(std::ostream&)>& write) {
    replace_output(path, force, [&](const fs::path& beside) {
        make_new(beside);
        std::ofstream file(beside, std::ios::binary | std::ios::trunc);
        write(file);
        file.close();
        if (!file) {
            refuse_output(path);
        }
    });
}

void write_output(const fs::path& path, bool force, std::string_view text) {
    write_output(path, force, [&](std::ostream& out) { out << text; });
}
}  // namespace pipescope
