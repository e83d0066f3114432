#pragma once

#include "trace/foreign/task_rules.h"
#include "trace/store/opened_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace pipescope {
/// A task rule that may fit a program's ranges.
struct SuggestedRule {
    std::string name;                                        ///< "ranges such as 'fwd mb 3 stage 1'"
    std::string pattern;                                     ///< as in a file of task rules
    std::vector<std::pair<std::string, std::string>> kinds;  ///< as TaskRule::kinds
    std::string kind;                                        ///< as TaskRule::kind
    std::size_t matches = 0;                                 ///< ranges that the pattern matches
    std::string example;                                     ///< one of their names
};

/// Suggests rules from the names of a host's ranges: names with words for a task, such as fwd, backward, optimizer or
/// recv_forward, and with numbers. Words before a number tell a micro-batch (mb, microbatch, batch) from a partition
/// (stage, partition, pp, chunk); a number without such a word is the micro-batch. Numbered steps are suggested too.
/// Names of operators, modules and layers, and ranges that `known` already matches, are left out. By the number of
/// ranges, most first. Cost: each distinct name once.
std::vector<SuggestedRule> suggest_rules(const std::vector<OpenedTrace>& traces, const TaskRules& known);
/// The rule as in a file of task rules.
nlohmann::ordered_json rule_json(const SuggestedRule& rule);
/// The text of a file of task rules with these rules.
std::string rules_file(const std::vector<SuggestedRule>& rules);
}  // namespace pipescope
