#include "simulator/schedule_file.h"

#include "base/text_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace pipescope {
bool is_schedule_file(const std::string& schedule) {
    constexpr std::string_view kSuffix = ".csv";
    return schedule.size() >= kSuffix.size() &&
           std::equal(kSuffix.rbegin(), kSuffix.rend(), schedule.rbegin(),
                      [](char small, char any) { return small == (any >= 'A' && any <= 'Z' ? any - 'A' + 'a' : any); });
}

Schedule load_schedule(const std::string& schedule) {
    if (!is_schedule_file(schedule)) {
        return parse_schedule(schedule);
    }
    const std::string text =
        read_text_file(schedule, {"a schedule's CSV file", "'pipescope schedule NAME -o' writes one"});
    return Schedule::from_csv(std::filesystem::path(schedule).filename().string(), text);
}
}  // namespace pipescope
