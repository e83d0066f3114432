#pragma once

namespace pipescope {
/// Waits so that the current task lasts as long as all waits in it together, counted from the task's start: deadlines
/// are absolute and chained, so that neither the overshoot of one wait nor the work between two adds up. Outside a task
/// it just waits that long. Sleeps, so that more lanes than cores can wait at once.
void wait_in_task(double nanoseconds);
}  // namespace pipescope
