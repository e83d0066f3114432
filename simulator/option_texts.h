#pragma once

#include "simulator/pipeline_options.h"

#include <string>
#include <vector>

namespace pipescope {
/// An option of `simulate` and its value. An empty value leaves the option out.
struct OptionText {
    std::string option;  ///< without the dashes: "checkpoint"
    std::string value;   ///< as on the command line: "never"; of a flag: "true"

    friend bool operator==(const OptionText&, const OptionText&) = default;
};

/// The pipeline as options of `simulate`, each with its full precision. Names balance, chunks, batch, checkpoint,
/// schedule and optimizer; of the others those that differ from their defaults. Leaves out what no option says:
/// measured times of a link, links of single pairs, and gradient buckets.
std::vector<OptionText> option_texts(const PipelineOptions& options);

/// The options that turn one pipeline into the other. Measured times of a link can only be taken away.
std::vector<OptionText> changed_options(const PipelineOptions& from, const PipelineOptions& to);

/// " --checkpoint never", or nothing for an empty value. `word` quotes a value for the shell.
template <class Quote>
std::string command_words(const OptionText& each, const Quote& word) {
    if (each.value.empty()) {
        return {};
    }
    const bool is_flag = each.value == "true";
    return (each.option == "chunks" ? " -m" : " --" + each.option) + (is_flag ? "" : " " + word(each.value));
}
}  // namespace pipescope
