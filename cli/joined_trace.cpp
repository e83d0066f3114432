#include "cli/joined_trace.h"

#include "trace/merge_traces.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// The name of the joined file, which titles show: "out.rank0 + out.rank1.sqlite".
std::string joined_name(const std::vector<std::string>& files) {
    constexpr std::size_t kMostNamed = 3;
    std::string name = fs::path(files.front()).stem().string();
    for (std::size_t k = 1; k < files.size() && files.size() <= kMostNamed; ++k) {
        name += " + " + fs::path(files[k]).stem().string();
    }
    if (files.size() > kMostNamed) {
        name += fmt::format(" + {} more", files.size() - 1);
    }
    return name + ".sqlite";
}
}  // namespace

JoinedTrace::JoinedTrace(const std::vector<std::string>& files) : path_(files.front()) {
    if (files.size() == 1) {
        return;
    }
    path_ = temporary_.emplace(joined_name(files)).path();
    merge_traces({files.begin(), files.end()}, path_, IfExists::refuse);  // its warnings are in the trace
}

bool are_of_one_run(const std::vector<std::string>& files) {
    std::optional<std::string> run;
    for (const std::string& file : files) {
        const std::optional<ProcessFacts> process = rank_of_trace(file);
        if (!process || run.value_or(process->run) != process->run) {
            return false;
        }
        run = process->run;
    }
    return files.size() > 1;
}
}  // namespace pipescope
