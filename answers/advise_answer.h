#pragma once

#include "analysis/load_run.h"
#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "profiler/profile/profile.h"
#include "simulator/plan/advice.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <vector>

namespace pipescope {
/// The question of advise: which single changes make a pipeline faster, or make it fit. Its options set the fields.
struct AdviseQuestion {
    AdviseQuestion();
    AdviseQuestion(const AdviseQuestion&) = delete;  // the table refers to the other fields
    AdviseQuestion& operator=(const AdviseQuestion&) = delete;

    AskedPipeline pipeline;
    OptionTable options;
};

struct AdviseAnswer {
    Advice advice;
    std::vector<std::string> commands;  ///< the commands that simulate the moves; none for a recorded run
    std::string check_command;          ///< runs the base and the first move in turns; empty if that cannot be done
    std::vector<Assumption> assumptions;
    std::string profile_command;        ///< if the pipeline exceeds its profile
    std::vector<std::string> warnings;  ///< sentences
    bool batch_known = true;            ///< otherwise rates in samples are meaningless
};
/// Called with the share that is done, 0 to 1.
using AdviceProgress = std::function<void(double)>;
/// Answers for the pipeline of the options, whose profile is in `file`. Throws UsageError.
AdviseAnswer advise_answer(const AdviseQuestion& question, const std::string& file, const CheckedProfile& profile,
                           const AdviceProgress& progress);
/// Answers for the run of the trace `name`. Throws UsageError for options besides --memory-limit, and TraceFormatError
/// for a run that cannot be simulated.
AdviseAnswer advise_answer(const AdviseQuestion& question, const std::string& name, LoadedRun loaded,
                           const AdviceProgress& progress);
nlohmann::ordered_json to_json(const AdviseAnswer& answer);
std::string to_text(const AdviseAnswer& answer);
}  // namespace pipescope
