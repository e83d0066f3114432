#include "simulator/schedule_file.h"

#include "balance/text_file.h"

#include <filesystem>

namespace pipescope {
bool is_schedule_file(const std::string& schedule) {
    return schedule.ends_with(".csv");
}

Schedule load_schedule(const std::string& schedule) {
    if (!is_schedule_file(schedule)) {
        return parse_schedule(schedule);
    }
    const std::string text =
        read_text_file(schedule, "a schedule's CSV file", "'pipescope schedule NAME -o' writes one");
    return Schedule::from_csv(std::filesystem::path(schedule).filename().string(), text);
}
}  // namespace pipescope
