#include "cli/cluster_plan_command.h"

#include "answers/reports.h"
#include "cli/progress_bar.h"
#include "cli/stop_signals.h"

#include <nlohmann/json.hpp>

#include <iostream>

namespace pipescope {
ClusterPlan cluster_plan_with_bar(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                                  const PipelineFlags& pipeline, const std::string& rank_by) {
    const StopSignals signals("the search for layouts ends");
    ProgressBar bar("planning");
    return cluster_plan_of({model_or_profile}, flags, pipeline, rank_by, [&bar](double done) {
        bar.show(done);
        return stop_signal() == 0;
    });
}

ExitCode plan_on_cluster(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                         const PipelineFlags& pipeline, const std::string& rank_by, std::size_t most, bool json) {
    const ClusterPlan plan = cluster_plan_with_bar(model_or_profile, flags, pipeline, rank_by);
    if (plan.cancelled && plan.candidates.empty()) {
        throw Interrupted();
    }
    if (json) {
        std::cout << dump(cluster_plan_json(plan));
    } else {
        std::cout << cluster_plan_text(plan, most);
    }
    if (plan.cancelled) {
        print_warnings({"interrupted before all layouts were tried; there may be better ones than those above"});
        return stop_exit_code();
    }
    return plan.candidates.empty() ? ExitCode::infeasible : ExitCode::success;
}
}  // namespace pipescope
