#include "schedule/error.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const ScheduleTable table = parse_schedule_csv(text);
        if (!(parse_schedule_csv(to_csv(table)) == table)) {
            std::abort();
        }
    } catch (const Error&) {
        return 0;
    }
    try {
        const Schedule schedule = Schedule::from_csv("s.csv", text);
        if (!(Schedule::from_csv("s.csv", to_csv(schedule.file()->table)) == schedule)) {
            std::abort();
        }
    } catch (const Error&) {
        return 0;
    }
    return 0;
}
