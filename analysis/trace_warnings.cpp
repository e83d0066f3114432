#include "analysis/trace_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

namespace pipescope {
namespace {
std::string percent(double fraction) {
    return fmt::format("{:.2f} %", 100 * fraction);
}

/// Rings are the threads' own: the other sources have one row each, and lose other things.
std::string range_warning(const std::vector<DropRecord>& drops, std::int64_t lost) {
    std::int64_t all = 0;
    std::size_t threads = 0;
    std::size_t losing = 0;
    for (const DropRecord& drop : drops) {
        if (drop.source != "cupti" && drop.source != "trace") {
            all += drop.recorded + drop.dropped + drop.open_at_exit;
            ++threads;
            losing += drop.dropped > 0 ? 1 : 0;
        }
    }
    return fmt::format(
        "the recorder lost {} of {} ranges, on {} of {} threads: idle time and bubble fractions are not "
        "known and not shown; record again with fewer steps, or with larger rings by PIPESCOPE_RING_ENTRIES",
        lost, all, losing, threads);
}
}  // namespace

std::vector<std::string> loss_warnings(const std::vector<DropRecord>& drops) {
    std::vector<std::string> warnings;
    const LostRecords lost = lost_records(drops);
    if (lost.ranges > 0) {
        warnings.push_back(range_warning(drops, lost.ranges));
    }
    if (lost.device_records > 0) {
        warnings.push_back(fmt::format(
            "CUPTI lost {} records of device work: kernels, copies and calls are missing, device times of tasks are "
            "too small, and bubble fractions are not shown; record again while nothing else uses the machine",
            lost.device_records));
    }
    if (lost.rows > 0) {
        warnings.push_back(fmt::format(
            "{} rows could not be written: tasks, ranges or samples are missing, so bubble fractions are not known and "
            "not shown; make room for the trace and record again",
            lost.rows));
    }
    return warnings;
}

std::string loss_warning(const std::vector<DropRecord>& drops) {
    return fmt::format("{}", fmt::join(loss_warnings(drops), "; "));
}

std::vector<std::string> diagnostic_warnings(const std::vector<DiagnosticRecord>& diagnostics) {
    std::vector<std::string> warnings;
    for (const DiagnosticRecord& diagnostic : diagnostics) {
        if (diagnostic.severity == "warning" || diagnostic.severity == "error") {
            warnings.push_back(diagnostic.source + ": " + diagnostic.text);
        }
    }
    return warnings;
}

std::vector<std::string> trace_warnings(const OpenedTrace& trace) {
    std::vector<std::string> warnings = loss_warnings(trace.drops);
    if (trace.run.contains("format") && !trace.run.contains("closed")) {
        warnings.emplace_back(
            "the recording was not closed: it still runs, was killed, or could not be written to its end; what is "
            "missing "
            "is not known; 'pipescope recover' makes it one plain file");
    }
    for (std::string& warning : diagnostic_warnings(trace.diagnostics)) {
        warnings.push_back(std::move(warning));
    }
    return warnings;
}

std::vector<std::string> load_warnings(const std::optional<MachineLoad>& load, std::string_view what) {
    if (!load || !is_notable(*load)) {
        return {};
    }
    std::string who;
    if (load->others > kNotableLoad) {
        who = fmt::format("other processes took {}", percent(load->others));
    }
    if (load->stolen > kNotableLoad) {
        who += fmt::format("{}the host of this virtual machine took {}", who.empty() ? "" : " and ",
                           percent(load->stolen));
    }
    return {
        fmt::format("{} of the cores' time while {}: its times say as much of that load; do it again on a quiet "
                    "machine",
                    who, what)};
}

std::vector<std::string> load_warnings(const std::optional<MachineLoad>& profile,
                                       const std::optional<MachineLoad>& run) {
    std::vector<std::string> warnings = load_warnings(profile, "the profile was taken");
    for (std::string& warning : load_warnings(run, "the run was recorded")) {
        warnings.push_back(std::move(warning));
    }
    const auto taken = [](const MachineLoad& load) { return load.others + load.stolen; };
    if (profile && run && std::abs(taken(*profile) - taken(*run)) > kNotableLoad) {
        warnings.push_back(fmt::format(
            "{} of the cores' time was taken while the profile was measured, and {} during the run: a part of the step "
            "error is that difference",
            percent(taken(*profile)), percent(taken(*run))));
    }
    return warnings;
}
}  // namespace pipescope
