#pragma once

#include <c10/core/Device.h>

namespace pipescope {
/// Host time that the engine itself costs per task of a partition, in ns: the median over many steps of a pipeline of
/// one lane and one trivial layer, divided by the number of their tasks. On an accelerator, the time to launch such a
/// task or to run its smallest kernels, whichever is longer. Takes a few ms.
double measure_task_launch(c10::Device device);
}  // namespace pipescope
