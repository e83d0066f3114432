#pragma once

#include "cluster/cluster_plan.h"

namespace pipescope {
/// The steps of a candidate's run by batch, timed with step_ns_at() for at most 16 batches, and in between on straight
/// lines. Precondition: the request has a ramp.
std::vector<RunPart> timed_ramp(const ClusterPlanRequest& request, double samples_of_tokens, double step_ns,
                                const std::function<double(std::int64_t batch)>& step_ns_at);
/// Bytes that a save of a language model holds: parameters, and the optimizer's state of those that train.
double save_bytes(const LanguageModel& model, const Layout& layout);
/// Fills in a candidate's run: nodes, spares, saves, failures, waits for repairs, time and cost. `parts`: where its
/// pipeline runs. With a ramp, ClusterCandidate::ramp is known. With `priced`, costs are prices, otherwise
/// device-hours. Precondition: the candidate has its step.
void add_run(ClusterCandidate& candidate, const PipelineParts& parts, const ClusterPlanRequest& request, bool priced);
}  // namespace pipescope
