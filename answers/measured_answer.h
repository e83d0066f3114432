#pragma once

#include "answers/layout_answer.h"
#include "answers/simulate_answer.h"
#include "cluster/program_fit.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A program fitted to measured steps of a model, for --measured.
struct MeasuredAnswer {
    ProgramFit fit;
    // Of each step, in the file's order.
    std::vector<std::string> places;  ///< "runs.csv, line 2"
    std::vector<std::string> layouts;
    std::vector<std::int64_t> batches;
    std::vector<MeasuredStep> measured;
};
/// Fits the layout's program, or one without a name, to the steps of a CSV (docs/program-format.md): columns are
/// options of simulate without dashes, `seconds`, and `gib` if memory was measured. What a row does not say is as the
/// question has it. Throws UsageError for a profile, a fault of the file by its line, steps that the devices cannot
/// have run, and steps on several types of device.
MeasuredAnswer measured_answer(const ModelOrProfile& what, const SimulateQuestion& question,
                               const LayoutQuestion& layout, const std::filesystem::path& file);
nlohmann::ordered_json to_json(const MeasuredAnswer& answer);
/// The answer of simulate or plan with the fit, if there was one, as its key `measured`.
nlohmann::ordered_json with_measured(nlohmann::ordered_json object, const std::optional<MeasuredAnswer>& measured);
std::string to_text(const MeasuredAnswer& answer);
}  // namespace pipescope
