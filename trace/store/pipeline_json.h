#pragma once

#include "schedule/task_graph.h"

#include <string>

namespace pipescope {
/// The pipeline of a step, as stored in a trace under PIPESCOPE_RUN 'pipeline': its shape, and the program of each
/// lane. docs/trace-format.md describes the keys.
std::string pipeline_json(const TaskGraph& graph);
/// Parses the task graph. Throws Error if the text is not such an object, or if its programs do not fit its shape.
TaskGraph parse_pipeline_json(const std::string& text);
}  // namespace pipescope
