#pragma once

#include <c10/core/Device.h>

namespace pipescope {
/// What the engine itself costs the host for each task of a partition, in ns: the median of many steps of a pipeline of
/// one lane and one layer that does next to nothing, over their tasks. On an accelerator that is what issuing such a
/// task takes, or what its smallest kernels take, whichever is more. Takes some ms.
double measure_task_launch(c10::Device device);
}  // namespace pipescope
