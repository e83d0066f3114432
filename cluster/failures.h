#pragma once

#include <vector>

namespace pipescope {
/// How often a run fails, and what a failure costs. Failures are a Poisson process; they also hit checkpoints and
/// restarts.
struct Failures {
    double hours_between = 0;        ///< mean, of all nodes together; 0: none
    double checkpoint_seconds = 60;  ///< in which a checkpoint holds the training up; above 0
    double restart_seconds = 900;    ///< from a failure until the training goes on from the last checkpoint
};

/// A run that saves regularly.
struct CheckpointPlan {
    double interval_seconds = 0;  ///< of training between two checkpoints; 0: none are needed
    double effective = 1;         ///< share of the time that the run would take without failures and checkpoints
};

/// Share of a run's time that is progress, with that many seconds of training between checkpoints. The expected time of
/// an interval t with checkpoint c, restart r and mean M between failures is M e^(r / M) (e^((t + c) / M) - 1). Source:
/// Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006), section 3.
double effective_share(const Failures& failures, double interval_seconds);
/// The interval with the largest share: the root of (t / M - 1) e^((t + c) / M) = -1.
CheckpointPlan best_checkpoints(const Failures& failures);

/// The fewest spare nodes that are all in repair at once with at most that probability. A node is repaired after
/// `repair_hours`; nodes in repair are then Poisson distributed. In a run that is shorter, those that failed since its
/// start are: pass its length.
int spare_nodes(int nodes, double hours_between_failures_of_one, double repair_hours, double most_risk = 0.01);

/// Mean time in which a run stands still, because a node fails while all spares are in repair and the first one is not
/// back yet: with 0 spares, 1 and so on, up to `most_spares`; shorter if more would save nothing. All nodes are good
/// when it starts; none fails while it stands still. `hours`: of the run without these waits, with restarts;
/// `hours_between`: mean between failures of the nodes that run, together. Waits follow Erlang's loss formula, with
/// spares as servers, for any distribution of repair times. So they are exact without spares and in the long run. Until
/// the first repair could end, the formula takes the failures so far for those in repair, and no more waiting than in
/// the long run. Error of the run's whole time, against sampled runs with repairs of equal length: below 1 % up to two
/// nodes in repair in the mean or from 20 repair times on; up to 7 % with ten in repair.
std::vector<double> repair_waits_by_spares(double hours, double hours_between, double repair_hours, int most_spares);
}  // namespace pipescope
