#include "analysis/load_run.h"
#include "answers/advise_answer.h"
#include "answers/reports.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "profiler/profile/profile_file.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
AdviseAnswer answer_with_bar(const AdviseQuestion& question, const std::vector<std::string>& files) {
    const JoinedTrace joined(with_files_of_folders(files));
    LoadedRun loaded = load_run(joined.path());
    ProgressBar bar("trying changes");
    const auto show = [&bar](double done) { bar.show(done); };
    const std::string& first = files.front();
    return loaded.run.origin == TraceOrigin::profile ? advise_answer(question, first, load_profile(first), show)
                                                     : advise_answer(question, first, std::move(loaded), show);
}

ExitCode advise_command(const AdviseQuestion& question, const std::vector<std::string>& files, bool json) {
    const AdviseAnswer answer = answer_with_bar(question, files);
    print_warnings(answer.warnings);
    std::cout << (json ? dump(to_json(answer)) : to_text(answer));
    return answer.advice.base.feasible ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_advise_command(Program& program) {
    const auto question = std::make_shared<AdviseQuestion>();
    const auto files = std::make_shared<std::vector<std::string>>();
    const auto json = std::make_shared<bool>();
    CLI::App* command = program.add_command(
        "advise", "Rank the single changes that would make a pipeline faster or make it fit",
        "Examples:\n"
        "  pipescope advise out.sqlite\n"
        "  pipescope advise p.json --balance 3,3 -m 8 --batch 32 --memory-limit 16GiB\n"
        "A trace of 'pipescope run --trace' says what was run. A profile needs --balance, -m and --batch.\n"
        "Exit code 3: a lane of the pipeline itself needs more than --memory-limit.");
    command
        ->add_option("FILE", *files,
                     "Trace of 'pipescope run --trace', the traces of all its processes, or a profile file")
        ->required();
    add_options(*command, std::shared_ptr<OptionTable>(question, &question->options));
    add_json_flag(*command, *json);
    program.set_action(command, [question, files, json] { return advise_command(*question, *files, *json); });
}
}  // namespace pipescope
