#pragma once

#include "schedule/schedules.h"

#include <string>

namespace pipescope {
/// True if the text names a file, not a schedule: it ends in .csv, in any case.
bool is_schedule_file(const std::string& schedule);

/// A schedule by its name, or from the file of that name (is_schedule_file()). Throws UsageError for an unknown name,
/// ProfileError for a file that cannot be read, and what Schedule::from_csv() throws.
Schedule load_schedule(const std::string& schedule);
}  // namespace pipescope
