#pragma once

#include "base/machine_load.h"
#include "simulator/pipeline_options.h"
#include "trace/store/opened_trace.h"
#include "trace/store/process_json.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Effect of a warning.
enum class Severity {
    remark,   ///< says how the figures were made; nothing is wrong with the file
    caution,  ///< every figure is shown, but some are less certain than they look
    refusal,  ///< idle time is unknown, so measured bubble fractions are withheld
};

/// A sentence that readers of a trace's figures must know. Commands and viewer show the same sentences.
struct TraceWarning {
    Severity severity = Severity::caution;
    std::string text;
    bool of_prediction = false;  ///< about the profile and how it predicts the run, not about the run
    std::string brief = {};      ///< of a refusal: why idle time is unknown, such as "ranges were lost"
    bool of_steps = false;       ///< of a refusal: step times and rates are unknown too, and withheld
    bool of_clocks = false;      ///< of a refusal: times on different lanes cannot be compared
    bool of_closing = false;     ///< says that the recording was not closed, as one that still runs

    friend bool operator==(const TraceWarning&, const TraceWarning&) = default;
};

TraceWarning refusal(std::string brief, std::string text);
std::vector<std::string> texts_of(std::span<const TraceWarning> warnings);
/// The warnings about the run, without those about its prediction.
std::vector<TraceWarning> about_run(std::span<const TraceWarning> warnings);
/// True if one of them rules out measured bubble fractions.
bool refuse_bubbles(std::span<const TraceWarning> warnings);
/// TraceWarning::brief of the first refusal; empty if there is none.
std::string why_no_bubbles(std::span<const TraceWarning> warnings);
/// TraceWarning::brief of the first refusal that withholds step times; empty if they are known.
std::string why_no_step_times(std::span<const TraceWarning> warnings);
/// TraceWarning::brief of the first refusal because of clocks; empty if times of different lanes can be compared.
std::string why_no_times_across_lanes(std::span<const TraceWarning> warnings);
/// True if the first and the last task of each step are on lane 0, so that lane 0 alone determines the step time.
bool first_lane_tells_step(const PipelineOptions& options);

/// True if another program recorded the run and its tasks were recognised, even if they were merged into a trace since.
bool is_of_another_program(const OpenedTrace& trace);

/// The ranks of the pipeline that the trace lacks: in the trace of one process, those on whose lanes no task was
/// recorded; in files of another program, those that the files show to exist. Empty if none is known to be missing.
std::optional<MissingRanks> missing_ranks(const OpenedTrace& trace);

/// A refusal for each source that lost records; empty if none did.
std::vector<TraceWarning> loss_warnings(const std::vector<DropRecord>& drops);
/// loss_warnings(), joined in one line.
std::string loss_warning(const std::vector<DropRecord>& drops);
/// A refusal for the trace of one process that ran only some of the lanes. Needs only OpenedTrace::run and `origin`.
std::optional<TraceWarning> one_rank_warning(const OpenedTrace& trace);
/// All warnings in this order: losses; a recording that was not closed or has no task times; diagnostic_warnings().
/// Empty for a trace that can be trusted.
std::vector<TraceWarning> trace_warnings(const OpenedTrace& trace);
/// Warnings and errors of the recording itself, "source: text" each.
std::vector<std::string> diagnostic_warnings(const std::vector<DiagnosticRecord>& diagnostics);
/// The text of trace_warnings() for a recording that is not closed, including one that still runs.
inline constexpr std::string_view kNotClosed =
    "the recording was not closed: it still runs, was killed, or could not be written to its end; what is missing is "
    "not known; 'pipescope recover' makes it one plain file";

/// A sentence if other load took a notable share of the cores while `what` ("the profile was taken"); otherwise empty.
std::vector<std::string> load_warnings(const std::optional<MachineLoad>& load, std::string_view what);
/// load_warnings() for a profile and the run it predicts, plus a sentence if their loads differ notably.
std::vector<std::string> load_warnings(const std::optional<MachineLoad>& profile,
                                       const std::optional<MachineLoad>& run);
}  // namespace pipescope
