// In the target of the engine, since it needs torch, which the lanes do without.

#include "engine/lanes/profiler_range.h"

#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
struct Range {
    std::string name;  // read by callbacks for as long as the range lives
    at::RecordFunction function;
};
}  // namespace

std::string profiler_name(const TaskKey& key, bool is_split) {
    std::string kind;
    std::int32_t partition = key.partition;
    if (const std::optional<char> letter = letter_of(key.kind)) {
        kind = is_split ? 'I' : *letter;
    } else if (key.kind == TaskKind::copy_forward) {
        kind = "SEND_F";
    } else if (key.kind == TaskKind::copy_backward) {
        kind = "SEND_B";
        ++partition;  // a copy has the number of the lower of its partitions, the name that of the sender
    } else {
        return {};
    }
    return "PP:" + std::to_string(partition) + kind + (key.micro_batch < 0 ? "" : std::to_string(key.micro_batch));
}

bool may_be_profiled() {
    return at::hasCallbacks();
}

void* ProfilerRange::begin(const TaskKey& key, bool is_split) {
    std::optional<at::StepCallbacks> callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) {
        return nullptr;
    }
    std::string name = profiler_name(key, is_split);
    if (name.empty()) {
        return nullptr;
    }
    std::unique_ptr<Range> range(new Range{std::move(name), at::RecordFunction(std::move(*callbacks))});
    range->function.before(std::string_view(range->name));
    return range.release();
}

void ProfilerRange::end(void* range) noexcept {
    delete static_cast<Range*>(range);
}
}  // namespace pipescope
