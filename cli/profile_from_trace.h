#pragma once

#include "analysis/trace_profile.h"
#include "cli/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// `profile --from-trace` and `--calibrate`: measure a profile from recorded runs. These do not need torch.
struct TraceProfileFlags {
    std::vector<std::string> traces;  ///< --from-trace; empty: not given
    std::vector<std::string> runs;    ///< --calibrate; empty: not given
    std::string earlier;              ///< --profile
    std::string rules;
    std::string steps;
    std::optional<std::int64_t> micro_batch_size;
    std::string output;
    bool force = false;
    bool json = false;
};

/// Adds --from-trace, --calibrate, --profile, --steps, --micro-batch-size and --task-rules.
void add_trace_profile_options(CLI::App& command, TraceProfileFlags& flags);
/// The profile and the pipeline that ran. Its notes begin with the trace's warnings. Throws as profile_from_trace().
TraceProfile measured_profile(const TraceProfileFlags& flags);
/// Runs the command with these flags. Throws UsageError, or Error for a trace from which no profile can be measured.
ExitCode profile_from_trace(const TraceProfileFlags& flags);
/// Adds the command `profile` with only these options, for a program without torch.
void add_trace_profile_command(Program& program);
/// True if these words of a command line are `profile` with --from-trace or --calibrate.
bool asks_for_trace_profile(const std::vector<std::string>& arguments);
}  // namespace pipescope
