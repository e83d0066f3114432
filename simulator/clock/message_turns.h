#pragma once

#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The order of messages if each lane handles one after the other (LinkProtocol::in_turn).
///
/// Idea: a lane's messages follow the order of its tasks. Those with a task's inputs come before the task, and those
/// with its outputs after it. So a receive holds up the sends behind it. Messages that would wait for each other for
/// ever, such as an output of a lane and the gradient that it gets from the next one in 1F1B, run at once, as programs
/// launch them together.
struct MessageTurns {
    std::vector<std::vector<std::uint32_t>> after;  ///< by task: messages that end before it starts; empty: no turns
    std::vector<std::uint32_t> order;               ///< all tasks, each after those that it waits for; empty: no turns
};

/// The turns of copies over links of the protocol. Cost: O((tasks + dependencies) log tasks).
MessageTurns message_turns(const PipelineOptions& options, const TaskGraph& graph);
}  // namespace pipescope
