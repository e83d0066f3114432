#include "save/training_state.h"

#include "save/save_error.h"
#include "save/strict_json.h"

#include <cmath>
#include <limits>

namespace pipescope {
namespace {
constexpr const char* kFormat = "pipescope.training";
constexpr std::uint64_t kVersion = 1;
}  // namespace

std::string to_json(const TrainingState& state) {
    const nlohmann::ordered_json object = {
        {"format", kFormat},    {"version", kVersion},          {"step", state.step},
        {"model", state.model}, {"optimizer", state.optimizer}, {"learning_rate", state.learning_rate},
        {"seed", state.seed},
    };
    return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

TrainingState parse_training_state(std::string_view text) {
    const nlohmann::json object = parse_strict_json(text);
    if (const std::string format = text_member(object, "format"); format != kFormat) {
        throw SaveError("\"format\" is " + shown(format) + "; it must be \"" + kFormat + "\"");
    }
    if (const std::uint64_t version = unsigned_member(object, "version"); version != kVersion) {
        throw SaveError("\"version\" is " + std::to_string(version) + "; this PipeScope reads " +
                        std::to_string(kVersion) + "; use the PipeScope that saved it");
    }
    const std::uint64_t step = unsigned_member(object, "step");
    if (step > std::numeric_limits<std::int32_t>::max()) {
        throw SaveError("\"step\" is " + std::to_string(step) + "; a training has at most 2^31 - 1 steps");
    }
    const nlohmann::json& rate = member(object, "learning_rate");
    if (!rate.is_number() || !(rate.get<double>() >= 0) || !std::isfinite(rate.get<double>())) {
        throw SaveError("\"learning_rate\" is " + shown(rate) + "; it must be a number from 0");
    }
    return {static_cast<std::int64_t>(step), text_member(object, "model"), text_member(object, "optimizer"),
            rate.get<double>(), unsigned_member(object, "seed")};
}
}  // namespace pipescope
