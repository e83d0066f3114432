#include "cluster/failures.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
double effective_share(const Failures& failures, double interval_seconds) {
    if (failures.hours_between <= 0) {
        return interval_seconds > 0 ? interval_seconds / (interval_seconds + failures.checkpoint_seconds) : 1;
    }
    const double mean = failures.hours_between * 3600;
    const double expected = mean * std::exp(failures.restart_seconds / mean) *
                            std::expm1((interval_seconds + failures.checkpoint_seconds) / mean);
    return interval_seconds / expected;
}

CheckpointPlan best_checkpoints(const Failures& failures) {
    if (failures.hours_between <= 0) {
        return {};
    }
    const double mean = failures.hours_between * 3600;
    const double saving = failures.checkpoint_seconds / mean;
    // (x - 1) e^(x + c) + 1 ascends from below 0 at x = 0 to 1 at x = 1.
    double low = 0;
    double high = 1;
    constexpr int kHalvings = 60;
    for (int k = 0; k < kHalvings; ++k) {
        const double x = (low + high) / 2;
        ((x - 1) * std::exp(x + saving) + 1 < 0 ? low : high) = x;
    }
    CheckpointPlan plan;
    plan.interval_seconds = (low + high) / 2 * mean;
    plan.effective = effective_share(failures, plan.interval_seconds);
    return plan;
}

int spare_nodes(int nodes, double hours_between_failures_of_one, double repair_hours, double most_risk) {
    if (hours_between_failures_of_one <= 0 || repair_hours <= 0) {
        return 0;
    }
    const double in_repair = nodes * repair_hours / hours_between_failures_of_one;
    // Sums the Poisson distribution in logarithms, since e^-mean may be 0 in double.
    double sum = 0;
    // Running nodes fail at the same rate however many are in repair, so more may be in repair than run.
    const int most = static_cast<int>(std::min(1e6, 2 * in_repair + 100));
    for (int k = 0; k <= most; ++k) {
        sum += std::exp(k * std::log(in_repair) - in_repair - std::lgamma(k + 1.0));
        if (1 - sum <= most_risk) {
            return k;
        }
    }
    return most;
}

namespace {
/// Share of calls that find that many servers busy, at `load` calls a time of service.
double erlang_loss(int servers, double load) {
    double lost = 1;
    for (int k = 1; k <= servers; ++k) {
        lost = load * lost / (k + load * lost);
    }
    return lost;
}
}  // namespace

double repair_wait_hours(double hours, double hours_between, double repair_hours, int spares) {
    if (hours_between <= 0 || repair_hours <= 0 || !std::isfinite(hours)) {
        return 0;
    }
    // An hour's waits if failures of the last `past` hours may be in repair. A failure that finds all spares there
    // waits for the oldest of them, which failed past * spares / (spares + 1) hours ago in the mean.
    const auto waits = [&](double past) {
        return erlang_loss(spares, past / hours_between) * (repair_hours - past * spares / (spares + 1)) /
               hours_between;
    };
    const double later = waits(repair_hours);
    const double first = std::min(hours, repair_hours);
    constexpr int kSteps = 200;
    double sum = 0;
    for (int k = 0; k < kSteps; ++k) {
        sum += std::min(later, waits((k + 0.5) / kSteps * first));
    }
    return sum / kSteps * first + (hours - first) * later;
}
}  // namespace pipescope
