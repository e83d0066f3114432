#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace pipescope {
class OptionTable;

/// Checks a command's output path before any work. Throws Error if the file exists and `force` is false, if it is a
/// folder or a device, if its folder is missing or not writable, or if its name makes it a part of something else
/// (check_no_part()).
void check_output(const std::filesystem::path& path, bool force);

/// Like check_output(), for a file that --schedule can read: UsageError unless its name ends in .csv.
void check_schedule_output(const std::filesystem::path& path, bool force);

/// Like check_output(), but without the check that the folder is writable.
void check_output_name(const std::filesystem::path& path, bool force);

/// Like check_output() and check_output_name(), for a trace. Without `force`, parts of a former trace of that name
/// (trace/store/trace_parts.h) are refused, too: they are all that is left of what a killed run wrote last.
void check_trace_output(const std::filesystem::path& path, bool force);
void check_trace_name(const std::filesystem::path& path, bool force);

/// Throws Error if an output, file or folder, would get the name of a part of an existing trace
/// (trace/store/trace_parts.h) or of a saved step, whether such a part exists or not.
void check_no_part(const std::filesystem::path& output);

/// Throws Error if `output` names the file `input`, which a command reads, by whatever name, or what belongs to such a
/// trace: its log or its notes. It would be lost.
void check_not_input(const std::filesystem::path& output, const std::filesystem::path& input);
/// Likewise for the values of a command's or a question's options, once they are given. Outputs are the files and
/// folders in the group "Output"; every other value may name a file that is read. Files that no option names are up to
/// the command. Also checks each output by check_no_part(), and refuses two outputs of the same name.
void check_named_outputs(const CLI::App& command);
void check_named_outputs(const OptionTable& table);

/// Throws UsageError if two outputs have the same name, or one that of a part of the other: it would replace that.
/// Empty: not asked for.
void check_apart(const std::string& first_option, const std::filesystem::path& first, const std::string& second_option,
                 const std::filesystem::path& second);

/// Has `write` make a file of the given name beside the target, brings that to the disk and renames it, so that a
/// failure keeps the old file, and nobody sees half of the new one. A signal that ends the process removes the
/// unfinished one. Checks the target first, like check_output(); without `force`, a file that appears meanwhile is
/// kept, too.
void replace_output(const std::filesystem::path& path, bool force,
                    const std::function<void(const std::filesystem::path& beside)>& write);

/// Like replace_output(), for a trace, after check_trace_output(). Parts of a former trace go with it: SQLite would
/// replay them into the new one. Throws TraceError if another process writes the trace that would be replaced.
void replace_trace(const std::filesystem::path& path, bool force,
                   const std::function<void(const std::filesystem::path& beside)>& write);

/// Like replace_output(), but for a stream or a text. Throws Error if it cannot be written.
void write_output(const std::filesystem::path& path, bool force, const std::function<void(std::ostream&)>& write);
void write_output(const std::filesystem::path& path, bool force, std::string_view text);
}  // namespace pipescope
