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
/// folder or a device, if its folder is missing or not writable, or if its name makes it a part of another file
/// (check_no_part()).
void check_output(const std::filesystem::path& path, bool force);

/// check_output() for a file that --schedule can read. Throws UsageError unless its name ends in .csv.
void check_schedule_output(const std::filesystem::path& path, bool force);

/// check_output(), except that the folder need not be writable.
void check_output_name(const std::filesystem::path& path, bool force);

/// check_output(), or check_output_name(), for a trace. Without `force`, also refuses parts of a former trace of that
/// name (trace/store/trace_parts.h): they are all that is left of the last rows of a killed run.
void check_trace_output(const std::filesystem::path& path, bool force);
void check_trace_name(const std::filesystem::path& path, bool force);

/// Throws Error if an output, file or folder, would get the name of a part of an existing trace
/// (trace/store/trace_parts.h) or of a saved step, even if no such part exists.
void check_no_part(const std::filesystem::path& output);

/// Throws Error if `output` is the file `input`, which a command reads, under any name, or a part of it if it is a
/// trace: its log or its notes. The command would destroy it.
void check_not_input(const std::filesystem::path& output, const std::filesystem::path& input);
/// check_not_input() for the given values of a command's or a question's options. Outputs are the files and folders in
/// the group "Output"; every other value may name a file to read. The command itself checks files that no option names.
/// Also checks each output with check_no_part(), and refuses two outputs with the same name.
void check_named_outputs(const CLI::App& command);
void check_named_outputs(const OptionTable& table);

/// Throws UsageError if two outputs have the same name, or if one has the name of a part of the other, which it would
/// replace. An empty path is not an output.
void check_apart(const std::string& first_option, const std::filesystem::path& first, const std::string& second_option,
                 const std::filesystem::path& second);

/// Lets `write` create a file of the given name beside the target, flushes it to disk and renames it. A failure
/// therefore keeps the old file, and nobody sees half of the new one. A signal that ends the process removes the
/// unfinished file.
///
/// Checks the target first, as check_output(). Without `force`, keeps a file that appears meanwhile.
void replace_output(const std::filesystem::path& path, bool force,
                    const std::function<void(const std::filesystem::path& beside)>& write);

/// replace_output() for a trace, after check_trace_output(). Removes parts of a former trace, because SQLite would
/// replay them into the new one. Throws TraceError if another process writes the trace to be replaced.
void replace_trace(const std::filesystem::path& path, bool force,
                   const std::function<void(const std::filesystem::path& beside)>& write);

/// replace_output() for a stream or a text. Throws Error if it cannot be written.
void write_output(const std::filesystem::path& path, bool force, const std::function<void(std::ostream&)>& write);
void write_output(const std::filesystem::path& path, bool force, std::string_view text);
}  // namespace pipescope
