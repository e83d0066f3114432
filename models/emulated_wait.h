#pragma once

namespace pipescope {
/// Waits until the current task has lasted as long as all its waits together, counted from the task's start. Deadlines
/// are absolute and chained, so neither overshoot nor the work between waits adds up. Outside a task, simply waits that
/// long. It sleeps, so more lanes than cores can wait at once.
void wait_in_task(double nanoseconds);
}  // namespace pipescope
