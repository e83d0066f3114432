#include "cluster/failures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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
    // The number of running nodes, and with it the rate of failures, stays the same, so more nodes may be in repair
    // than run.
    const int most = static_cast<int>(std::min(1e6, 2 * in_repair + 100));
    for (int k = 0; k <= most; ++k) {
        sum += std::exp(k * std::log(in_repair) - in_repair - std::lgamma(k + 1.0));
        if (1 - sum <= most_risk) {
            return k;
        }
    }
    return most;
}

std::vector<double> repair_waits_by_spares(double hours, double hours_between, double repair_hours, int most_spares) {
    if (hours_between <= 0 || repair_hours <= 0 || !std::isfinite(hours)) {
        return {0};
    }
    struct Moment {
        double past = 0;  ///< length of the past, in hours, whose failures may be in repair
        double lost = 1;  ///< share of failures with all spares in repair: Erlang's loss formula
    };
    constexpr int kMoments = 200;
    const double first = std::min(hours, repair_hours);
    std::vector<Moment> moments;
    for (int k = 0; k < kMoments; ++k) {
        moments.push_back({(k + 0.5) / kMoments * first});
    }
    Moment later{repair_hours};
    std::vector<double> waits;
    for (int spares = 0; spares <= most_spares; ++spares) {
        // Waits per hour. A failure that finds all spares in repair waits for the oldest of them, which failed past *
        // spares / (spares + 1) hours ago on average.
        const auto an_hour = [&](Moment& moment) {
            if (spares > 0) {
                const double calls = moment.past / hours_between * moment.lost;
                moment.lost = calls / (spares + calls);
            }
            return moment.lost * (repair_hours - moment.past * spares / (spares + 1)) / hours_between;
        };
        const double most = an_hour(later);
        double sum = 0;
        for (Moment& moment : moments) {
            sum += std::min(most, an_hour(moment));
        }
        waits.push_back(sum / kMoments * first + (hours - first) * most);
        if (waits.back() == 0) {
            break;
        }
    }
    return waits;
}
}  // namespace pipescope
