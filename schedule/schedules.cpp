#include "schedule/schedules.h"

#include "schedule/error.h"
#include "schedule/gpipe_schedule.h"
#include "schedule/lane_plan.h"
#include "schedule/parse_name.h"
#include "schedule/quantities.h"

#include <algorithm>

namespace pipescope {
namespace {
/// Runs `warm_up` forwards, then alternates one forward and one backward, then runs the remaining backwards.
LaneProgram one_forward_one_backward(const PipelineShape& shape, const std::vector<Cell>& forwards,
                                     const std::vector<Cell>& backwards, std::size_t warm_up) {
    LanePlan plan(shape);
    warm_up = std::min(warm_up, forwards.size());
    for (std::size_t k = 0; k < forwards.size() + warm_up; ++k) {
        if (k < forwards.size()) {
            plan.forward(forwards[k]);
        }
        if (k >= warm_up) {
            plan.backward(backwards[k - warm_up]);
        }
    }
    return plan.take();
}

void check_one_partition_a_lane(const PipelineShape& shape, Schedule schedule) {
    if (shape.num_lanes() != shape.num_partitions) {
        throw UsageError("placement puts " + counted(shape.num_partitions, "partition", "partitions") + " on " +
                         counted(shape.num_lanes(), "lane", "lanes") + "; " + to_string(schedule) +
                         " runs one partition a lane; use interleaved for more");
    }
}

TaskGraph graph_of(const PipelineShape& shape, std::vector<LaneProgram>& programs) {
    add_all_reduces(shape, programs);
    return TaskGraph(shape, programs);
}

/// Like 1F1B on lane j, but delays backwards of the weights: the first j wait, and each later one runs j micro-batches
/// late, so that gradients of inputs come first. The rest fill the end.
TaskGraph zero_bubble_h1(const PipelineShape& shape) {
    const int n = shape.num_partitions;
    const int m = shape.num_micro_batches;
    std::vector<LaneProgram> programs(static_cast<std::size_t>(n));
    for (int j = 0; j < n; ++j) {
        LanePlan plan(shape);
        const int warm_up = std::min(n - 1 - j, m);
        for (int k = 0; k < m + warm_up; ++k) {
            if (k < m) {
                plan.forward({MicroBatchId{k}, PartitionId{j}});
            }
            const int back = k - warm_up;
            if (back >= 0) {
                plan.backward({MicroBatchId{back}, PartitionId{j}});
            }
            if (back >= j) {
                plan.backward_weight({MicroBatchId{back - j}, PartitionId{j}});
            }
        }
        for (int i = std::max(0, m - j); i < m; ++i) {
            plan.backward_weight({MicroBatchId{i}, PartitionId{j}});
        }
        programs[shape.lane_of(PartitionId{j}).index()] = plan.take();
    }
    return graph_of(shape, programs);
}

/// Micro-batch i goes all the way forward and back before micro-batch i + 1 starts.
TaskGraph model_parallel(const PipelineShape& shape) {
    std::vector<LanePlan> plans(static_cast<std::size_t>(shape.num_lanes()), LanePlan(shape));
    for (int i = 0; i < shape.num_micro_batches; ++i) {
        for (int j = 0; j < shape.num_partitions; ++j) {
            plans[shape.lane_of(PartitionId{j}).index()].forward({MicroBatchId{i}, PartitionId{j}});
        }
        for (int j = shape.num_partitions; j-- > 0;) {
            plans[shape.lane_of(PartitionId{j}).index()].backward({MicroBatchId{i}, PartitionId{j}});
        }
    }
    std::vector<LaneProgram> programs;
    for (LanePlan& plan : plans) {
        programs.push_back(plan.take());
    }
    return graph_of(shape, programs);
}

TaskGraph one_f_one_b(const PipelineShape& shape) {
    const int n = shape.num_partitions;
    std::vector<LaneProgram> programs(static_cast<std::size_t>(n));
    for (int j = 0; j < n; ++j) {
        std::vector<Cell> order;
        for (int i = 0; i < shape.num_micro_batches; ++i) {
            order.push_back({MicroBatchId{i}, PartitionId{j}});
        }
        programs[shape.lane_of(PartitionId{j}).index()] =
            one_forward_one_backward(shape, order, order, static_cast<std::size_t>(n - 1 - j));
    }
    return graph_of(shape, programs);
}

void check_interleaved(const PipelineShape& shape) {
    const int lanes = shape.num_lanes();
    const auto refuse = [](const std::string& what) { throw UsageError("the interleaved schedule " + what); };
    if (shape.num_partitions % lanes != 0 || shape.num_partitions == lanes) {
        refuse("needs two or more partitions a lane, the same number on all; the pipeline has " +
               counted(shape.num_partitions, "partition", "partitions") + " on " + counted(lanes, "lane", "lanes") +
               "; give a placement such as 0,1,0,1");
    }
    for (int j = 0; j < shape.num_partitions; ++j) {
        if (shape.lane_of(PartitionId{j}).value() != j % lanes) {
            refuse("puts partition " + std::to_string(j) + " on lane " + std::to_string(j % lanes) + ", not on lane " +
                   std::to_string(shape.lane_of(PartitionId{j}).value()) + "; give a placement such as 0,1,0,1");
        }
    }
    if (shape.num_micro_batches % lanes != 0) {
        refuse("needs a multiple of " + std::to_string(lanes) + " micro-batches, one for each lane; " +
               std::to_string(shape.num_micro_batches) + " is none; change chunks or batch");
    }
}

TaskGraph interleaved(const PipelineShape& shape) {
    const int lanes = shape.num_lanes();
    const int rounds = shape.num_partitions / lanes;  // per lane
    std::vector<LaneProgram> programs(static_cast<std::size_t>(lanes));
    for (int lane = 0; lane < lanes; ++lane) {
        // Groups of `lanes` micro-batches go through the lane's partitions in turn; backward through them in reverse.
        std::vector<Cell> forwards;
        std::vector<Cell> backwards;
        for (int first = 0; first < shape.num_micro_batches; first += lanes) {
            for (int round = 0; round < rounds; ++round) {
                for (int i = first; i < first + lanes; ++i) {
                    forwards.push_back({MicroBatchId{i}, PartitionId{round * lanes + lane}});
                    backwards.push_back({MicroBatchId{i}, PartitionId{(rounds - 1 - round) * lanes + lane}});
                }
            }
        }
        const auto warm_up = static_cast<std::size_t>((lanes - lane - 1) * 2 + (rounds - 1) * lanes);
        programs[static_cast<std::size_t>(lane)] = one_forward_one_backward(shape, forwards, backwards, warm_up);
    }
    return graph_of(shape, programs);
}
}  // namespace

std::string to_string(Schedule schedule) {
    switch (schedule) {
        case Schedule::gpipe: return "gpipe";
        case Schedule::one_f_one_b: return "1f1b";
        case Schedule::interleaved_1f1b: return "interleaved";
        case Schedule::zero_bubble_h1: return "zero-bubble-h1";
        case Schedule::pipedream: return "pipedream";
        case Schedule::model_parallel: return "model-parallel";
    }
    return "unknown";
}

std::vector<Schedule> all_schedules() {
    return {Schedule::gpipe,          Schedule::one_f_one_b, Schedule::interleaved_1f1b,
            Schedule::zero_bubble_h1, Schedule::pipedream,   Schedule::model_parallel};
}

std::vector<Schedule> runnable_schedules() {
    return {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b, Schedule::zero_bubble_h1};
}

std::string runnable_schedule_names(std::string_view before_last) {
    const std::vector<Schedule> schedules = runnable_schedules();
    std::string names;
    for (const Schedule each : schedules) {
        names += each == schedules.front() ? "" : each == schedules.back() ? before_last : ", ";
        names += to_string(each);
    }
    return names;
}

Schedule parse_schedule(std::string_view name) {
    return parse_name(name, all_schedules(), "schedule '" + std::string(name) + "' is not known",
                      "use gpipe when unsure");
}

bool needs_loss_inside(Schedule schedule) {
    return schedule != Schedule::gpipe;
}

bool splits_backward(Schedule schedule) {
    return schedule == Schedule::zero_bubble_h1;
}

bool is_synchronous(Schedule schedule) {
    return schedule != Schedule::pipedream;
}

bool is_for_comparison_only(Schedule schedule) {
    const std::vector<Schedule> runnable = runnable_schedules();
    return std::find(runnable.begin(), runnable.end(), schedule) == runnable.end();
}

void check_schedule(Schedule schedule, const PipelineShape& shape) {
    shape.check();
    switch (schedule) {
        case Schedule::gpipe:
        case Schedule::model_parallel: break;
        case Schedule::one_f_one_b:
        case Schedule::pipedream:
        case Schedule::zero_bubble_h1: check_one_partition_a_lane(shape, schedule); break;
        case Schedule::interleaved_1f1b: check_interleaved(shape); break;
    }
}

TaskGraph make_schedule(Schedule schedule, PipelineShape shape) {
    shape.loss = needs_loss_inside(schedule) ? LossScope::micro_batch : LossScope::mini_batch;
    check_schedule(schedule, shape);
    switch (schedule) {
        case Schedule::gpipe: return gpipe_schedule(shape);
        case Schedule::one_f_one_b:
        case Schedule::pipedream: return one_f_one_b(shape);
        case Schedule::interleaved_1f1b: return interleaved(shape);
        case Schedule::zero_bubble_h1: return zero_bubble_h1(shape);
        case Schedule::model_parallel: return model_parallel(shape);
    }
    return gpipe_schedule(shape);
}
}  // namespace pipescope
