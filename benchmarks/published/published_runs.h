#pragma once

#include "cluster/layout.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A published run of a program, and its prediction from the configuration alone.
struct PublishedRun {
    std::string run;
    std::string set;     ///< runs of one program, type of device, and sort of model
    std::string source;  ///< repository, version and file
    std::string program;
    std::string device;
    bool experts = false;            ///< the model has experts
    bool tunes = false;              ///< tunes a trained model
    std::string about;               ///< model, devices, layout
    double seconds = 0;              ///< measured, of a step; 0: the run died of memory
    std::optional<double> gib;       ///< measured
    std::optional<LayoutStep> step;  ///< predicted; empty: see left_out
    std::string left_out;            ///< why there is no prediction

    bool ran() const { return seconds > 0; }
    /// Precondition: the run ran and has a prediction.
    double error() const { return step->step_ns() / 1e9 / seconds - 1; }
};

/// Errors of the runs of one set.
struct RunErrors {
    std::string set;
    int rows = 0;  ///< that ran
    int predicted = 0;
    double signed_mean = 0;
    double absolute_mean = 0;
    const PublishedRun* worst = nullptr;
};

/// All rows of benchmarks/published/runs.csv in `folder`, in order. Nothing is fitted to a row. `programs`: "own", each
/// row's program; empty: without a program; otherwise one for all rows, as load_program() takes it.
std::vector<PublishedRun> published_runs(const std::filesystem::path& folder, const std::string& programs = "own");
/// By set, in the order of the runs, which must outlive the answer.
std::vector<RunErrors> errors_by_set(const std::vector<PublishedRun>& runs);
}  // namespace pipescope
