#include "analysis/load_run.h"
#include "analysis/trace_comparison.h"
#include "analysis/two_runs.h"
#include "answers/advice_report.h"
#include "answers/change_check.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/progress_bar.h"
#include "cli/run_arguments.h"
#include "cli/stop_signals.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

struct CheckFlags {
    std::int64_t rounds = 5;
    bool json = false;
};

/// What was typed after check's own options: the words before and after "--".
struct TypedRuns {
    std::vector<std::string> before;
    std::vector<std::string> after;
};

TypedRuns typed_runs(const std::vector<std::string>& words) {
    const auto middle = std::ranges::find(words, "--");
    TypedRuns found{{words.begin(), middle}, {}};
    if (middle != words.end()) {
        found.after.assign(middle + 1, words.end());
    }
    if (found.before.empty() || found.after.empty()) {
        throw UsageError(
            "check is given one configuration; it runs two in turns; write the present one, --, and what changes: "
            "'pipescope check MODEL --balance 4,4 -m 8 --batch 32 -- -m 16'");
    }
    for (const std::string& word : words) {
        if (const std::string name = word.substr(0, word.find('=')); name == "--rounds" || name == "--json") {
            throw UsageError(
                fmt::format("{} follows the model; it is an option of check itself; write it before the "
                            "model: 'pipescope check {} ..'",
                            name, name == "--json" ? name : name + " 5"));
        }
    }
    return found;
}

/// Options of `run` that make no sense in a run that repeats.
void refuse_outputs(const RunArguments& run) {
    constexpr std::string_view kKeepsNoFiles = "check runs each configuration several times and keeps no files";
    constexpr std::array<std::pair<const char*, std::string_view>, 6> kRefused{
        {{"--trace", kKeepsNoFiles},
         {"--save", kKeepsNoFiles},
         {"--save-every", kKeepsNoFiles},
         {"--force", kKeepsNoFiles},
         {"--profile", "a profile is stored in the trace of a run, and check records none"},
         {"--resume", "check trains each time from the beginning"}}};
    for (const auto& [option, reason] : kRefused) {
        if (run.has(option)) {
            throw UsageError(fmt::format("{} is given; {}; leave it out", option, reason));
        }
    }
}

/// True for the file of a recorded run, not a model's.
bool is_recorded(const std::string& word) {
    const fs::path path = word;
    std::error_code ignored;
    const std::string kind = path.extension().string();
    return !kind.empty() && kind != ".so" && kind != ".pt" && kind != ".py" && fs::is_regular_file(path, ignored);
}

/// The words of a recorded run's command.
std::vector<std::string> words_of_trace(const std::string& file) {
    const LoadedRun loaded = load_run(file);
    const RecordedRun& run = loaded.run;
    constexpr std::string_view kRemedy = "write the model and its options instead";
    if (run.on_cluster || loaded.is_simulated()) {
        throw UsageError(
            fmt::format("{} holds a simulated step, and no run that could be repeated; {}", printable(file), kRemedy));
    }
    if (const int processes = number_of_processes(loaded); processes > 1) {
        throw UsageError(
            fmt::format("{} is of a run in {} processes; check runs one; run both configurations by hand, and use "
                        "'pipescope compare'",
                        printable(file), processes));
    }
    if (run.model.empty() || !run.options || run.of_another_program) {
        throw UsageError(fmt::format("{} does not say how to run it again; a trace of 'pipescope run --trace' does; {}",
                                     printable(file), kRemedy));
    }
    return run_words(run.model, options_as_recorded(run));
}

/// The arguments as typed. The options of a recorded run take the place of its trace; options beside the trace replace
/// them.
RunArguments present_run(const std::vector<std::string>& words, const CommandDefinition& definition) {
    RunArguments typed(words, definition);
    if (!is_recorded(typed.model())) {
        return typed;
    }
    const std::vector<std::string> all = typed.words();  // the trace, then the options
    return RunArguments(words_of_trace(typed.model()), definition)
        .changed_by(RunArguments({all.begin() + 1, all.end()}, definition));
}

CommandDefinition definition_of_run(const fs::path& torch) {
    std::vector<CommandDefinition> commands = definitions_of(torch);
    const auto run = std::ranges::find(commands, "run", &CommandDefinition::name);
    if (run == commands.end()) {
        throw Error(torch.string() + " has no command 'run'; install programs of one version");
    }
    return std::move(*run);
}

/// Runs one configuration once. Its errors and warnings are shown in its first turn only.
void take_turn(const fs::path& torch, const RunArguments& run, CheckedSide& side) {
    std::vector<std::string> arguments{"run"};
    std::ranges::copy(run.words(), std::back_inserter(arguments));
    arguments.emplace_back("--json");
    const bool is_first = side.turns.empty();
    throw_if_stopped();
    const ChildResult result = run_child(torch, arguments, {}, is_first ? ChildErrors::show : ChildErrors::hide);
    throw_if_stopped();
    if (result.exit_code != 0) {
        const std::string what = fmt::format("'{}' ended with exit code {}", side.command, result.exit_code);
        const std::string rest = is_first ? "; its error is above" : "; it ran before; run it alone to see its error";
        if (is_first && result.exit_code == static_cast<int>(ExitCode::usage)) {
            throw UsageError(what + rest);
        }
        throw Error(what + rest);
    }
    const nlohmann::json output = nlohmann::json::parse(result.output, nullptr, false);
    if (output.is_discarded()) {
        throw Error(fmt::format("'{} --json' printed no JSON; install programs of one version", side.command));
    }
    add_turn(side, output);
}

/// Runs both configurations in turns, as many whole rounds as there are before a stop. Returns true if it was stopped.
/// Throws Interrupted if no round is whole.
bool run_rounds(std::int64_t rounds, const fs::path& torch, const RunArguments& present, const RunArguments& changed,
                CheckedSide& before, CheckedSide& after) {
    ProgressBar bar("checking");
    for (std::int64_t round = 0; round < rounds; ++round) {
        try {
            // The order alternates: A B, B A, ..; if the machine becomes slower or faster, neither gains.
            for (const bool is_change : round % 2 == 0 ? std::array{false, true} : std::array{true, false}) {
                take_turn(torch, is_change ? changed : present, is_change ? after : before);
                bar.show(static_cast<double>(before.turns.size() + after.turns.size()) /
                         static_cast<double>(2 * rounds));
            }
        } catch (const Interrupted&) {
            const std::size_t whole = std::min(before.turns.size(), after.turns.size());
            if (whole == 0) {
                throw;
            }
            before.turns.resize(whole);
            after.turns.resize(whole);
            return true;
        }
    }
    return false;
}

ExitCode check_command(const CheckFlags& flags, const std::vector<std::string>& typed) {
    const StopSignals signals("a check ends without the current round");
    const TypedRuns words = typed_runs(typed);
    if (flags.rounds < 1) {
        throw UsageError(
            fmt::format("--rounds is {}; a check needs at least 1, and 2 for a verdict; use 5", flags.rounds));
    }
    const fs::path torch = torch_program_for("check");
    const CommandDefinition definition = definition_of_run(torch);
    const RunArguments present = present_run(words.before, definition);
    if (present.model().empty()) {
        throw UsageError("no MODEL is given before --; check runs a model; name one, or a trace of a run");
    }
    const RunArguments changed = present.changed_by(RunArguments(words.after, definition));
    for (const RunArguments* each : {&present, &changed}) {
        refuse_outputs(*each);
    }
    if (present.words() == changed.words()) {
        std::cerr << "pipescope: warning: both configurations are the same; the check shows the noise alone\n";
    }
    CheckedSide before{.command = present.command()};
    CheckedSide after{.command = changed.command()};
    const bool stopped = run_rounds(flags.rounds, torch, present, changed, before, after);
    ChangeCheck check = checked_change(std::move(before), std::move(after));
    check.interrupted = stopped;
    std::cout << (flags.json ? dump(change_check_json(check)) : change_check_text(check));
    return stopped ? stop_exit_code() : ExitCode::success;
}
}  // namespace

void add_check_command(Program& program) {
    const auto flags = std::make_shared<CheckFlags>();
    CLI::App* command = program.add_command(
        "check", "Run a training and a changed one in turns, and tell whether the change helps",
        "Examples:\n"
        "  pipescope check transformer:layers=6 --balance 4,4 -m 8 --batch 32 -- -m 16\n"
        "  pipescope check out.sqlite -- --balance 3,5\n"
        "  pipescope check --rounds 8 model.py:make --balance 3,3 -m 4 --batch 8 -- model.py:other --balance 2,2 -m 4 "
        "--batch 8\n"
        "Before --: a MODEL and the options of 'run', or the trace of a run and options that it does not hold.\n"
        "After --: the options that change, or another MODEL with all of its options. Each round runs both once, in\n"
        "turns; a paired test compares them.");
    command->prefix_command();
    add_option(*command, "--rounds", flags->rounds, "Rounds, each with one run of both; default 5", "N");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags, command] { return check_command(*flags, command->remaining()); });
}
}  // namespace pipescope
