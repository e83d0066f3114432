#include "cli/output_file.h"

#include "answers/option_table.h"
#include "base/error.h"
#include "cli/stop_signals.h"
#include "save/durable_file.h"
#include "save/save_folder.h"
#include "simulator/schedule_file.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>

#include <algorithm>
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
    throw Error(fmt::format("{} exists already; an existing file is kept; use {} to replace it, or another name",
                            path.string(), option_name("force=")));
}

[[noreturn]] void refuse_output(const fs::path& path) {
    throw Error(fmt::format("{} cannot be written ({}); free some space or choose another folder", path.string(),
                            std::strerror(errno)));
}

/// Makes an empty file. Its name can be guessed, so in a shared folder somebody may have put a link there.
void make_new(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);  // left by a killed process with the same number
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        refuse_output(path);
    }
    close(file);
}

/// Renames the file unless the name is taken. Returns false, with errno, if the name is taken or renaming fails.
bool rename_to_free_name(const fs::path& from, const fs::path& to) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
        return true;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return false;
    }
    // Some file systems cannot rename so, such as NFS. A second name also fails if the name is taken.
    return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;
}

/// Gives the finished file its name, once its bytes are on the disk: after a power failure there is the old or the new
/// file. Without `force`, keeps a file that another process made meanwhile. Throws Error; if the folder cannot be
/// flushed, the file has its name all the same.
void publish_output(const fs::path& from, const fs::path& to, bool force) {
    const int file = open(from.c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_on_disk = file >= 0 && (fsync(file) == 0 || errno == EINVAL);  // EINVAL: there is no disk to wait for
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
    if (const int problem = flush_folder(folder_of(to)); problem != 0) {
        throw Error(fmt::format(
            "{} is complete, but its folder cannot be flushed to the disk ({}), so after a power failure it "
            "may be missing, or be the former file; check the disk, or use another folder",
            to.string(), std::strerror(problem)));
    }
}
}  // namespace

void check_no_part(const fs::path& output) {
    require_no_part(output);
    if (is_part_of_save(output)) {
        throw Error(
            fmt::format("{} is by its name a part of a saved step, which is complete and never changes; choose "
                        "another name",
                        output.string()));
    }
}

void check_output_name(const fs::path& path, bool force) {
    check_no_part(path);
    std::error_code ignored;
    const fs::file_status there = fs::symlink_status(path, ignored);  // a dangling link belongs to somebody too
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

void check_trace_name(const fs::path& path, bool force) {
    check_output_name(path, force);
    if (!force) {
        require_no_database_parts(path);
    }
}

void check_trace_output(const fs::path& path, bool force) {
    check_output(path, force);
    check_trace_name(path, force);
}

void check_schedule_output(const fs::path& path, bool force) {
    if (!is_schedule_file(path.string())) {
        throw UsageError(fmt::format("{} is no name for a schedule; {} reads files that end in .csv; try {}.csv",
                                     path.string(), option_name("schedule"), path.stem().string()));
    }
    check_output(path, force);
}

void check_not_input(const fs::path& output, const fs::path& input) {
    std::error_code ignored;
    if (fs::equivalent(output, input, ignored)) {
        throw Error(
            fmt::format("{} is the input; the output would replace it; choose another output", output.string()));
    }
    // Also refuses an existing part under another name; check_no_part() checks names.
    std::vector<fs::path> parts = database_parts(input);
    parts.push_back(beside(input, kNotesEnding));
    for (const fs::path& part : parts) {
        if (fs::equivalent(output, part, ignored)) {
            throw Error(fmt::format("{} is a part of the input; the output would replace it; choose another output",
                                    output.string()));
        }
    }
}

namespace {
/// A value of an option. An output that is not a file is a folder, whose contents stay.
struct NamedValue {
    std::string option;
    std::string value;
    bool is_output = false;
    bool is_file = false;
};

NamedValue named_value(const std::string& option, const std::string& value, const std::string& group,
                       const std::string& type) {
    const bool is_file = type == "FILE";
    return {option, value, group == "Output" && (is_file || type == "DIR" || type == "FOLDER"), is_file};
}

void check_values(const std::vector<NamedValue>& values) {
    for (const NamedValue& output : values) {
        if (!output.is_output) {
            continue;
        }
        check_no_part(output.value);
        for (const NamedValue& input : values) {
            if (!input.is_output && output.is_file) {
                check_not_input(output.value, input.value);
                check_not_input(output.value, input.value.substr(0, input.value.find(':')));  // net.pt:input=3
            }
        }
        for (const NamedValue* before = values.data(); before != &output; ++before) {
            if (before->is_output) {
                check_apart(before->option, before->value, output.option, output.value);
            }
        }
    }
}
}  // namespace

void check_named_outputs(const CLI::App& command) {
    std::vector<NamedValue> values;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& value : option->results()) {
            values.push_back(named_value(option->get_name(), value, option->get_group(), option->get_type_name()));
        }
    }
    check_values(values);
}

void check_named_outputs(const OptionTable& table) {
    std::vector<NamedValue> values;
    for (const OptionRow& row : table.rows()) {
        if (row.given) {
            values.push_back(named_value(option_name(row.name), *row.given, row.group, row.value));
        }
    }
    check_values(values);
}

void check_apart(const std::string& first_option, const fs::path& first, const std::string& second_option,
                 const fs::path& second) {
    if (first.empty() || second.empty()) {
        return;
    }
    const auto plain = [](const fs::path& path) {
        return fs::absolute(path / "").lexically_normal().parent_path();  // of a folder, with or without a last slash
    };
    if (plain(first) == plain(second)) {
        throw UsageError(fmt::format("{} and {} are both {}; each writes its own file; change one name", first_option,
                                     second_option, second.string()));
    }
    const auto check_part = [&](const std::string& part_option, const fs::path& part, const std::string& trace_option,
                                const fs::path& trace) {
        if (std::ranges::count(database_parts(plain(trace)), plain(part)) > 0) {
            throw UsageError(
                fmt::format("{} is {}, which would be a part of {} {}; each writes its own file; change "
                            "one name",
                            part_option, part.string(), trace_option, trace.string()));
        }
    };
    check_part(first_option, first, second_option, second);
    check_part(second_option, second, first_option, first);
}

namespace {
void replace_file(const fs::path& path, bool force, const std::function<void(const fs::path&)>& write,
                  const std::function<void()>& before_it_has_its_name) {
    const fs::path partial = beside(path, fmt::format(".{}.partial", getpid()));
    std::vector<fs::path> files = database_parts(partial);  // exist if it is a trace
    files.push_back(partial);
    const RemovedWhenKilled removed(files);
    try {
        write(partial);
        before_it_has_its_name();
        publish_output(partial, path, force);
    } catch (...) {
        for (const fs::path& file : files) {
            std::error_code ignored;
            fs::remove(file, ignored);
        }
        throw;
    }
}
}  // namespace

void replace_output(const fs::path& path, bool force, const std::function<void(const fs::path&)>& write) {
    check_output(path, force);
    replace_file(path, force, write, [] {});
}

void replace_trace(const fs::path& path, bool force, const std::function<void(const fs::path&)>& write) {
    check_trace_output(path, force);
    require_not_being_written(path);
    replace_file(path, force, write, [&] {
        if (force) {
            remove_database_parts(path);
        } else {
            require_no_database_parts(path);  // from a trace that began meanwhile
        }
    });
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
