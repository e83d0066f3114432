#include "base/error.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    const std::string text(reinterpret_cast<const char*>(data), size);
    Schedule schedule;
    try {
        to_csv(parse_schedule_csv(text));  // may be no schedule
        schedule = Schedule::from_csv("s.csv", text);
    } catch (const Error&) {
        return 0;
    }
    if (!(Schedule::from_csv("s.csv", to_csv(schedule.file()->table)) == schedule)) {
        std::abort();
    }
    return 0;
}
