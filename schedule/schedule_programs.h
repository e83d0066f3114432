#pragma once

#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
// Generators of named schedules: the program of each lane, without all-reduces. The shape has passed check_schedule().
// Each family has a file with its picture and its source.
using LanePrograms = std::vector<LaneProgram>;

/// With replicas, or several lanes that hold a partition, appends an all-reduce of each partition's gradients to its
/// lanes' programs. The last partition comes first, because its backward ends first.
void add_all_reduces(const PipelineShape& shape, LanePrograms& programs);

// gpipe_schedule.cpp: fill-drain
LanePrograms gpipe_programs(const PipelineShape& shape);
LanePrograms looped_bfs_programs(const PipelineShape& shape);

// one_f_one_b.cpp: 1F1B, interleaved and three zero-bubble schedules
LanePrograms one_f_one_b_programs(const PipelineShape& shape);
LanePrograms interleaved_programs(const PipelineShape& shape);
LanePrograms zero_bubble_h1_programs(const PipelineShape& shape);
LanePrograms zero_bubble_2p_programs(const PipelineShape& shape);
LanePrograms interleaved_zero_bubble_programs(const PipelineShape& shape);

// zero_bubble_v.cpp
LanePrograms zero_bubble_v_programs(const PipelineShape& shape);

// dualpipe.cpp: DualPipe, DualPipeV, and the tasks of each lane that may run as one
LanePrograms dualpipe_programs(const PipelineShape& shape);
LanePrograms dualpipe_v_programs(const PipelineShape& shape);
std::vector<LaneJoints> dualpipe_joints(const PipelineShape& shape);
std::vector<LaneJoints> dualpipe_v_joints(const PipelineShape& shape);

// controllable_memory.cpp
LanePrograms v_half_programs(const PipelineShape& shape);
LanePrograms v_min_programs(const PipelineShape& shape);

// model_parallel.cpp
LanePrograms model_parallel_programs(const PipelineShape& shape);
}  // namespace pipescope
