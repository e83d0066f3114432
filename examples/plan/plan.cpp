// Balances and simulates a profiled model on two lanes, plans up to two lanes, and counts the tasks of a trace.

#include <pipescope/profiler/profile/profile_file.h>
#include <pipescope/simulator/plan/planner.h>
#include <pipescope/simulator/search/balance_search.h>
#include <pipescope/simulator/simulation.h>
#include <pipescope/trace/open_trace.h>

#include <iostream>

int main(int argc, char** argv) {
    using namespace pipescope;
    if (argc != 3) {
        std::cerr << "usage: plan PROFILE TRACE\n";
        return 2;
    }
    try {
        const CheckedProfile profile = load_profile(argv[1]);
        PipelineOptions options;
        options.batch = 8;
        options.chunks = 4;
        options.hardware.link.bytes_per_second = 12e9;
        options.balance = find_balance(profile, options, 2, BalanceAlgorithm::optimal).balance;
        std::cout << "balance " << to_string(options.balance) << ": " << simulate(profile, options).step_time.count()
                  << " ns a step\n";

        PlanRequest request;
        take_options(request, options);
        request.partitions = {1, 2};
        const Plan best = plan(profile, request);
        std::cout << "the best of " << best.candidates.size() << " takes "
                  << best.candidates.at(best.best.value()).simulation.step_time.count() << " ns\n";

        const OpenedTrace trace = open_trace(argv[2]);
        std::cout << "the trace has " << trace.timeline(Source::simulated).slices.size() << " simulated tasks\n";
    } catch (const Error& error) {
        std::cerr << "plan: " << error.what() << "\n";
        return 1;
    }
}
