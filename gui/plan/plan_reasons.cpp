#include "gui/plan/plan_reasons.h"

#include "gui/style/number_format.h"
#include "gui/style/text.h"

#include <algorithm>
#include <tuple>

namespace pipescope {
namespace {
/// The criteria of the Pareto front; smaller is better.
auto merits(const PlanCandidate& candidate) {
    return std::tuple(-candidate.simulation.samples_per_second, candidate.simulation.lanes.size(),
                      highest_peak(candidate.simulation), candidate.cost);
}

bool beats(const PlanCandidate& a, const PlanCandidate& b) {
    const auto [slowA, lanesA, bytesA, costA] = merits(a);
    const auto [slowB, lanesB, bytesB, costB] = merits(b);
    return slowA <= slowB && lanesA <= lanesB && bytesA <= bytesB && costA <= costB && merits(a) != merits(b);
}

QString overTheLimit(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    const auto fullest =
        std::max_element(simulation.lanes.begin(), simulation.lanes.end(),
                         [](const SimulatedLane& a, const SimulatedLane& b) { return a.peak_bytes < b.peak_bytes; });
    return translated("does not fit: lane %1 needs %2 of %3")
        .arg(fullest - simulation.lanes.begin())
        .arg(formatBytes(fullest->peak_bytes), formatBytes(simulation.options.hardware.memory_limit.value_or(0)));
}

/// Advantages of a slower candidate over the best one.
QString trade(const PlanCandidate& candidate, const PlanCandidate& best) {
    QStringList gains;
    if (candidate.simulation.lanes.size() < best.simulation.lanes.size()) {
        gains << translated("%1 instead of %2")
                     .arg(formatCount(candidate.simulation.lanes.size(), translated("lane"), translated("lanes")))
                     .arg(best.simulation.lanes.size());
    }
    if (const double cost = relative_cost(candidate, best) - 1; cost < 0) {
        gains << translated("%1 cost").arg(formatShareChange(cost));
    }
    const auto bytes = static_cast<double>(highest_peak(candidate.simulation));
    const auto most = static_cast<double>(highest_peak(best.simulation));
    if (bytes < most) {
        gains << translated("%1 memory").arg(formatShareChange(bytes / most - 1));
    }
    const double slower = relative_throughput(candidate.simulation, best.simulation) - 1;
    if (gains.isEmpty()) {
        return slower > -kPlanTie ? translated("as fast as the best, with more lanes, cost or memory")
                                  : translated("a trade-off only without noise");
    }
    return translated("trade-off: %1, for %2 samples/s")
        .arg(gains.join(QStringLiteral(", ")), formatShareChange(slower));
}

QString beaten(const PlanCandidate& candidate, const PlanCandidate& by, std::size_t rank) {
    const double quicker = by.simulation.samples_per_second / candidate.simulation.samples_per_second - 1;
    return translated("dominated by %1: %2 samples/s, nothing worse").arg(rank + 1).arg(formatShareChange(quicker));
}
}  // namespace

std::vector<QString> planReasons(const Plan& plan) {
    std::vector<QString> reasons;
    std::vector<std::size_t> front;
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        if (plan.candidates[k].pareto) {
            front.push_back(k);
        }
    }
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        const PlanCandidate& each = plan.candidates[k];
        if (!each.simulation.feasible) {
            reasons.push_back(overTheLimit(each));
            continue;
        }
        if (plan.best == k) {
            reasons.push_back(translated("the fastest that fits"));
            continue;
        }
        // A dominated candidate is always dominated by one on the front.
        const auto by =
            std::find_if(front.begin(), front.end(), [&](std::size_t f) { return beats(plan.candidates[f], each); });
        reasons.push_back(by != front.end() ? beaten(each, plan.candidates[*by], *by)
                          : plan.best       ? trade(each, plan.candidates[*plan.best])
                                            : QString());
    }
    return reasons;
}
}  // namespace pipescope
