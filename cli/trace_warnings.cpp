#include "cli/trace_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

namespace pipescope {
std::string loss_warning(const std::vector<DropRecord>& drops) {
    std::int64_t lost = 0;
    std::int64_t all = 0;
    for (const DropRecord& drop : drops) {
        lost += drop.dropped;
        all += drop.recorded + drop.dropped + drop.open_at_exit;
    }
    if (lost <= 0) {
        return {};
    }
    const auto threads =
        std::count_if(drops.begin(), drops.end(), [](const DropRecord& drop) { return drop.dropped > 0; });
    return fmt::format(
        "the recorder lost {} of {} ranges, on {} of {} threads: idle time and bubble fractions are not "
        "known and not shown; record again with fewer steps, or with larger rings by PIPESCOPE_RING_ENTRIES",
        lost, all, threads, drops.size());
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
    std::vector<std::string> warnings;
    if (std::string loss = loss_warning(trace.drops); !loss.empty()) {
        warnings.push_back(std::move(loss));
    }
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

void print_warnings(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) {
        std::cerr << "pipescope: warning: " << warning << "\n";
    }
}
}  // namespace pipescope
