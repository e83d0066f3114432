#pragma once

#include "analysis/trace_profile.h"
#include "cli/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// `profile --from-trace`: measures a profile from a recorded run. Needs no torch.
struct TraceProfileFlags {
    std::vector<std::string> traces;  ///< --from-trace; empty: not given
    std::string rules;
    std::string steps;
    std::optional<std::int64_t> micro_batch_size;
    std::string output;
    bool force = false;
    bool json = false;
};

/// Adds --from-trace, --steps, --micro-batch-size and --task-rules.
void add_trace_profile_options(CLI::App& command, TraceProfileFlags& flags);
/// The profile and the pipeline that ran; its notes begin with the trace's warnings. Throws as profile_from_trace().
TraceProfile measured_profile(const TraceProfileFlags& flags);
/// Throws UsageError, or Error for a trace from which no profile can be measured.
ExitCode profile_from_trace(const TraceProfileFlags& flags);
/// Adds the command `profile` with these options alone, for a program without torch.
void add_trace_profile_command(Program& program);
/// True if these words of a command line are `profile` with --from-trace.
bool asks_for_trace_profile(const std::vector<std::string>& arguments);
}  // namespace pipescope
