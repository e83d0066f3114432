#include "analysis/trace_warnings.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/quantities.h"
#include "benchmarks/experiments/experiment_commands.h"
#include "benchmarks/experiments/validation_report.h"
#include "benchmarks/experiments/validation_runs.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/stop_signals.h"
#include "cli/torch/emulated_demo_profile.h"
#include "cli/torch/self_profile.h"
#include "engine/cores/usable_cores.h"
#include "models/zoo.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/profile/profile_file.h"
#include "schedule/micro_batches.h"

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
struct ValidateFlags {
    std::string model;
    bool emulated = false;
    bool calibrated = false;
    int busy = 0;
    int lanes = 2;
    std::int64_t batch = 32;
    std::int64_t chunks = 8;
    std::int64_t rounds = 3;
    std::int64_t steps = 5;
    bool markdown = false;
    bool json = false;
};

std::vector<ValidatedCandidate> run_plan(const std::string& name, const ModelSpec& model, ValidationPlan plan) {
    ProgressBar bar("validating " + name);
    plan.progress = [&](double done) { bar.show(done); };
    plan.stop = [] { return stop_signal() != 0; };
    return validate(model, plan);
}

/// Completed and planned runs of an interrupted validation; empty if it was not interrupted.
std::string interruption(const std::vector<ValidatedCandidate>& candidates, std::int64_t rounds) {
    std::size_t runs = 0;
    for (const ValidatedCandidate& each : candidates) {
        runs += each.runs.size();
    }
    return stop_signal() == 0
               ? ""
               : fmt::format("interrupted after {} of {}\n", runs,
                             counted(candidates.size() * static_cast<std::size_t>(rounds), "run", "runs"));
}

std::vector<ValidatedCandidate> validate_emulated(const ValidateFlags& flags) {
    const auto file = emulated_profile(flags.model);
    const CheckedProfile profile = file ? load_profile(*file) : CheckedProfile(emulated_demo_profile());
    ValidationPlan plan;
    plan.emulated = true;
    plan.candidates = emulated_candidates(profile);
    plan.rounds = flags.rounds;
    plan.steps = flags.steps;
    plan.warmup = 1;
    plan.profile = [&](const PipelineOptions&) { return profile; };
    return run_plan(file ? flags.model : "emulated layers", emulated_model(profile), plan);
}

/// A profile of all micro-batch sizes of the candidates.
Profile profile_of_candidates(const ModelSpec& model, const ValidateFlags& flags, std::uint64_t seed) {
    std::set<std::int64_t> sizes;
    for (const std::int64_t chunks : real_chunks(flags.chunks, flags.batch)) {
        const std::vector<std::int64_t> own = micro_batch_sizes(flags.batch, chunks);
        sizes.insert(own.begin(), own.end());
    }
    ProfileOptions options;
    options.samples.assign(sizes.begin(), sizes.end());
    options.co_running_lanes = flags.lanes;
    options.seed = seed;
    options.progress = [](double) { throw_if_stopped(); };
    return profile_model(model, options);
}

/// Predicts with a profile that runs of the first pipeline calibrate right before each run: one run for each number of
/// micro-batches among the candidates. One pipeline more has another schedule.
std::vector<ValidatedCandidate> validate_calibrated(const ValidateFlags& flags, const ModelSpec& model) {
    ValidationPlan plan;
    plan.rounds = flags.rounds;
    plan.steps = flags.steps;
    const CheckedProfile earlier = profile_of_candidates(model, flags, plan.seed);
    plan.candidates = real_candidates(earlier, flags.lanes, flags.chunks, flags.batch);
    const PipelineOptions first = plan.candidates.front();
    plan.candidates.push_back(first);
    plan.candidates.back().schedule = Schedule::one_f_one_b;
    std::vector<PipelineOptions> layouts;
    const std::vector<std::int64_t> all = real_chunks(flags.chunks, flags.batch);
    for (const std::int64_t chunks : std::set<std::int64_t>(all.begin(), all.end())) {
        layouts.push_back(first);
        layouts.back().chunks = chunks;
    }
    plan.profile = [&](const PipelineOptions&) {
        return calibrated_by_runs(model, earlier, layouts, plan.steps, plan.warmup, plan.seed);
    };
    return run_plan(flags.model, model, plan);
}

std::vector<ValidatedCandidate> validate_real(const ValidateFlags& flags) {
    const ModelSpec model = make_model(flags.model);
    check_micro_batches(flags.batch, flags.chunks);
    if (flags.lanes < 1 || static_cast<std::size_t>(flags.lanes) > model.layers.size()) {
        throw UsageError(fmt::format("-n is {}; each lane needs a layer, and {} has {}; use 1 to {}", flags.lanes,
                                     flags.model, model.layers.size(), model.layers.size()));
    }
    if (flags.calibrated) {
        return validate_calibrated(flags, model);
    }
    PipelineOptions first;
    first.batch = flags.batch;
    first.chunks = flags.chunks;
    first.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(flags.lanes), 1));
    ValidationPlan plan;
    plan.profile = [&](const PipelineOptions& candidate) {
        return profile_for_run(model, candidate, plan.seed, [](double) {});
    };
    plan.candidates = real_candidates(plan.profile(first), flags.lanes, flags.chunks, flags.batch);
    plan.rounds = flags.rounds;
    plan.steps = flags.steps;
    return run_plan(flags.model, model, plan);
}

/// Processes that keep a core busy each, until destruction.
class BusyProcesses {
public:
    explicit BusyProcesses(int count) {
        const pid_t parent = ::getpid();
        for (int k = 0; k < count; ++k) {
            const pid_t child = ::fork();
            if (child == 0) {
                ::prctl(PR_SET_PDEATHSIG, SIGKILL);
                const volatile int read_each_time = 0;
                while (::getppid() == parent) {
                    for (int spin = 0; spin < 100'000'000; ++spin) {
                        static_cast<void>(read_each_time);
                    }
                }
                ::_exit(0);
            }
            if (child < 0) {
                throw Error("a busy process cannot be started: the system has no room for it; use a smaller --busy");
            }
            children_.push_back(child);
        }
    }
    ~BusyProcesses() {
        for (const pid_t child : children_) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
    }
    BusyProcesses(const BusyProcesses&) = delete;
    BusyProcesses& operator=(const BusyProcesses&) = delete;

private:
    std::vector<pid_t> children_;
};

ExitCode validate_command(const ValidateFlags& flags) {
    const StopSignals signals;
    for (const auto& [option, value] : {std::pair{"--rounds", flags.rounds}, {"--steps", flags.steps}}) {
        if (value < 1) {
            throw UsageError(
                fmt::format("{} is {}; every candidate runs at least one step; use 1 or more", option, value));
        }
    }
    if (flags.model.empty() && !flags.emulated) {
        throw UsageError("no model is named; validate runs one, or emulated layers; name a MODEL, or use --emulated");
    }
    const bool emulated = flags.emulated || emulated_profile(flags.model).has_value();
    if (flags.emulated && !flags.model.empty() && !emulated_profile(flags.model)) {
        throw UsageError(fmt::format(
            "--emulated is given with the model {}; emulated layers come from a profile; write emulated:PROFILE, or "
            "leave one of the two out",
            flags.model));
    }
    if (flags.calibrated && emulated) {
        throw UsageError(
            "--calibrated is given with emulated layers, whose times are known; leave it out, or name a real model");
    }
    if (flags.busy < 0) {
        throw UsageError(fmt::format("--busy is {}; it is a number of processes; use 0 or more", flags.busy));
    }
    const BusyProcesses busy(flags.busy);
    const auto candidates = emulated ? validate_emulated(flags) : validate_real(flags);
    const ValidationGoal goal =
        validation_goal(emulated, flags.lanes, usable_cores(), flags.calibrated, flags.busy > 0);
    if (candidates_that_ran(candidates).empty()) {
        throw Interrupted();
    }
    print_warnings(load_warnings(summarize(candidates_that_ran(candidates)).load, "profiles and runs were measured"));
    if (flags.json) {
        nlohmann::ordered_json object = validation_json(candidates, goal);
        if (stop_signal() != 0) {
            object["interrupted"] = true;
        }
        std::cout << dump(object);
    } else {
        std::cout << validation_text(candidates, goal, flags.markdown) << interruption(candidates, flags.rounds)
                  << (emulated ? "" : fewer_micro_batches(flags.chunks, flags.batch));
    }
    return stop_exit_code();
}
}  // namespace

void add_validate_command(Program& program) {
    const auto flags = std::make_shared<ValidateFlags>();
    CLI::App* command = program.add_command(
        "validate", "Measure how accurate predictions are on this machine: predict several pipelines, then run them",
        "Examples:\n"
        "  pipescope_experiments validate transformer:layers=6 --batch 32 -m 8\n"
        "  pipescope_experiments validate --emulated\n"
        "Candidates take turns, --rounds times. A real model is profiled again before each run, with all lanes busy.");
    command->add_option("MODEL", flags->model, "Built-in model with options, a .so or .pt file, or emulated:PROFILE");
    command->add_flag("--emulated", flags->emulated,
                      "Use layers that wait instead of computing: 2 to 8 lanes, 4 to 32 micro-batches");
    command->add_flag(
        "--calibrated", flags->calibrated,
        "Profile once, and calibrate the profile before each run, with runs of the first pipeline: one for each number "
        "of micro-batches");
    command->add_option("--busy", flags->busy, "Processes that keep a core busy each, all the time; default 0")
        ->type_name("N");
    command->add_option("-n,--lanes", flags->lanes, "Lanes on this host; default 2")->type_name("N");
    command->add_option("--batch", flags->batch, "Samples of a step; default 32")->type_name("N");
    command
        ->add_option("-m,--chunks", flags->chunks,
                     "Micro-batches; some candidates take half or twice as many; "
                     "default 8")
        ->type_name("N");
    command->add_option("--rounds", flags->rounds, "Runs of each candidate; default 3")->type_name("N");
    command->add_option("--steps", flags->steps, "Measured steps of a run, after the warm-up; default 5")
        ->type_name("N");
    command->add_flag("--markdown", flags->markdown, "Print tables as Markdown")->group("Output");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return validate_command(*flags); });
}
}  // namespace pipescope
