#pragma once

namespace pipescope {
/// What the engine itself costs the host for each task of a partition, in ns: the median of many steps of a pipeline of
/// one lane and one layer that does next to nothing, over their tasks. Takes some ms.
double measure_task_launch();
}  // namespace pipescope
