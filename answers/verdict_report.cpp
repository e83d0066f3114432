#include "answers/verdict_report.h"

#include "answers/or_null.h"
#include "base/printable.h"

#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

Json change_json(const RunVerdict& verdict) {
    if (!verdict.change) {
        return nullptr;
    }
    const std::optional<ModelError>& error = verdict.error;
    const std::optional<ModelError::Range> range =
        error ? std::optional(error->range_of(verdict.step_change)) : std::nullopt;
    return {{"kind", to_string(verdict.change->kind)},
            {"title", verdict.change->title},
            {"step_change", verdict.step_change},
            {"least_change", range ? Json(range->least) : Json(nullptr)},
            {"most_change", range ? Json(range->most) : Json(nullptr)},
            {"within_model_error", error ? Json(error->hides(verdict.step_change)) : Json(nullptr)}};
}
}  // namespace

Json verdict_json(const RunVerdict& verdict) {
    Json parts = Json::array();
    for (const VerdictPart& part : verdict.parts) {
        parts.push_back({{"text", part.text},
                         {"role", to_string(part.role)},
                         {"evidence", to_string(part.evidence)},
                         {"cause", part.cause ? Json(to_string(*part.cause)) : Json(nullptr)},
                         {"lane", part.lane ? Json(part.lane->value()) : Json(nullptr)}});
    }
    return {{"text", verdict.text()},
            {"idle", or_null(verdict.idle)},
            {"parts", std::move(parts)},
            {"change", change_json(verdict)}};
}

std::string verdict_text(const RunVerdict& verdict) {
    return verdict.parts.empty() ? std::string() : printable(verdict.text()) + "\n";
}
}  // namespace pipescope
