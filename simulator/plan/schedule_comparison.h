#pragma once

#include "simulator/simulation.h"

#include <string>
#include <vector>

namespace pipescope {
/// One way to train the model on the same lanes.
struct ComparedSchedule {
    std::string name;  ///< such as "gpipe, checkpoint always" or "2 x 4 data x pipeline"
    Simulation simulation;
    bool synchronous = true;       ///< the update equals that of one device; false if weights have different ages
    Bytes communicated_bytes = 0;  ///< per step, between all lanes
    std::string note = {};         ///< a cost that the figures do not show, or empty
};

struct LeftOutSchedule {
    std::string name;
    std::string because;
};

/// All ways to use the options' lanes for one mini-batch: one lane at a time, the whole model on each lane, parallel
/// pipelines, and one pipeline in every schedule. Same lanes, same samples per step, same micro-batch size.
struct ScheduleComparison {
    std::vector<ComparedSchedule> schedules;
    std::vector<LeftOutSchedule> left_out;
};

/// Ignores the options' own schedule, placement and replicas; partition j runs on lane j. Pipelines with another number
/// of partitions than the balance are cut by find_balance(). Throws as simulate() does. Source: the comparison of data,
/// model and pipeline parallelism in GPipe (arXiv 1811.06965), sections 1 and 6, and PipeDream (arXiv 1806.03377),
/// section 2.
ScheduleComparison compare_schedules(const CheckedProfile& profile, const PipelineOptions& options);
}  // namespace pipescope
