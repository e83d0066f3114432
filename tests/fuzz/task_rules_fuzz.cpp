#include "trace/foreign/task_rules.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    try {
        const TaskRules rules = TaskRules::parse({reinterpret_cast<const char*>(data), size}, "rules.json");
        const auto meaning = rules.meaning_of("PP:1F2");
        if (meaning && meaning->rule >= rules.rules().size()) {
            std::abort();
        }
    } catch (const TaskRulesError&) {
        return 0;
    }
    return 0;
}
