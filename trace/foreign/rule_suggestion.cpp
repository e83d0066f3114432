#include "trace/foreign/rule_suggestion.h"

#include "trace/store/range_tracks.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
struct KindWord {
    std::string_view text;
    std::string_view kind;
};
// The longer words come first. A word is a whole one: "forwarded" and "bfwd" are none.
constexpr std::array kWords{KindWord{"recv_forward", "receive_forward"},
                            KindWord{"receive_forward", "receive_forward"},
                            KindWord{"send_forward", "send_forward"},
                            KindWord{"recv_backward", "receive_backward"},
                            KindWord{"receive_backward", "receive_backward"},
                            KindWord{"send_backward", "send_backward"},
                            KindWord{"forward_recv", "receive_forward"},
                            KindWord{"forward_send", "send_forward"},
                            KindWord{"backward_recv", "receive_backward"},
                            KindWord{"backward_send", "send_backward"},
                            KindWord{"backward_weight", "backward_weight"},
                            KindWord{"backward_input", "backward"},
                            KindWord{"weight_grad", "backward_weight"},
                            KindWord{"wgrad", "backward_weight"},
                            KindWord{"dgrad", "backward"},
                            KindWord{"forward", "forward"},
                            KindWord{"fwd", "forward"},
                            KindWord{"backward", "backward"},
                            KindWord{"bwd", "backward"},
                            KindWord{"recompute", "recompute"},
                            KindWord{"optimizer", "optimizer"}};

bool is_ascii_letter(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_figure(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
/// Lower case, with other signs than letters and digits as underscores.
std::string folded_name(std::string_view name) {
    std::string text;
    for (const char c : name) {
        text +=
            is_ascii_letter(c) || is_figure(c) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '_';
    }
    return text;
}

/// A name in parts: the text around the word for its kind and around its numbers.
struct NameShape {
    std::string key;  ///< equal for names that differ in numbers and in the word only
    std::string pattern;
    std::string word;  ///< as in the name
    std::string_view kind;
    friend auto operator<=>(const NameShape&, const NameShape&) = default;
};

struct KindWordAt {
    std::size_t at = 0;
    std::size_t size = 0;
    std::string_view kind;
};

std::optional<KindWordAt> word_in(const std::string& text) {
    for (const KindWord& word : kWords) {
        for (std::size_t at = text.find(word.text); at != std::string::npos; at = text.find(word.text, at + 1)) {
            const std::size_t end = at + word.text.size();
            const bool begins = at == 0 || !is_ascii_letter(text[at - 1]);
            if (begins && (end == text.size() || !is_ascii_letter(text[end]))) {
                return KindWordAt{at, word.text.size(), word.kind};
            }
        }
    }
    return std::nullopt;
}

enum class NumberMeaning { micro_batch, partition, step, layer, unknown };

/// What the letters before a number say about it.
NumberMeaning meaning_of_number(const std::string& text, std::size_t at, const KindWordAt& word) {
    std::size_t end = at;
    while (end > 0 && text[end - 1] == '_') {
        --end;
    }
    std::size_t start = end;
    while (start > 0 && is_ascii_letter(text[start - 1])) {
        --start;
    }
    if (start < word.at + word.size && end > word.at) {
        return NumberMeaning::unknown;  // "fwd3"
    }
    const std::string label = text.substr(start, end - start);
    const auto is_one_of = [&](std::initializer_list<std::string_view> labels) {
        return std::ranges::find(labels, label) != labels.end();
    };
    if (is_one_of({"mb", "ubatch", "batch", "microbatch", "micro", "mbs", "mbid", "m", "i"})) {
        return NumberMeaning::micro_batch;
    }
    if (is_one_of({"stage", "partition", "pp", "part", "chunk", "vp", "s", "p", "stg"})) {
        return NumberMeaning::partition;
    }
    if (is_one_of({"step", "iter", "iteration"})) {
        return NumberMeaning::step;
    }
    return is_one_of({"layer", "layers", "block", "head", "expert", "rank", "gpu", "device"}) ? NumberMeaning::layer
                                                                                              : NumberMeaning::unknown;
}

/// Signs that RE2 takes literally only after a backslash.
std::string escaped_for_rules(std::string_view text) {
    return re2::RE2::QuoteMeta(re2::StringPiece(text.data(), text.size()));
}

std::optional<NameShape> shape_of(std::string_view name) {
    const std::string text = folded_name(name);
    const std::optional<KindWordAt> word = word_in(text);
    if (!word) {
        return std::nullopt;
    }
    NameShape shape;
    shape.kind = word->kind;
    shape.word = std::string(name.substr(word->at, word->size));
    std::set<NumberMeaning> taken;
    const bool numbered = word->kind != "optimizer";
    for (std::size_t at = 0; at < name.size();) {
        if (at == word->at) {
            shape.key += "\x01";
            shape.pattern += "\x01";  // replaced once all words are known
            at += word->size;
            continue;
        }
        if (!is_figure(name[at])) {
            shape.key += name[at];
            shape.pattern += escaped_for_rules(name.substr(at, 1));
            ++at;
            continue;
        }
        NumberMeaning meaning = meaning_of_number(text, at, *word);
        if (meaning == NumberMeaning::layer) {
            return std::nullopt;  // a layer is a part of a task
        }
        while (at < name.size() && is_figure(name[at])) {
            ++at;
        }
        if (meaning == NumberMeaning::unknown) {
            meaning =
                taken.contains(NumberMeaning::micro_batch) ? NumberMeaning::partition : NumberMeaning::micro_batch;
        }
        const bool fresh = numbered && meaning != NumberMeaning::step && taken.insert(meaning).second;
        shape.key += "#";
        shape.pattern += !fresh                                  ? "\\d+"
                         : meaning == NumberMeaning::micro_batch ? "(?<micro_batch>\\d+)"
                                                                 : "(?<partition>\\d+)";
    }
    return shape;
}

/// True for names that programs do not give themselves: operators, modules, functions.
bool is_of_library(std::string_view name, std::string_view category) {
    constexpr std::array<std::string_view, 8> kStarts{"aten::",     "autograd::",    "torch::", "nn.Module",
                                                      "Optimizer.", "ProfilerStep#", "nccl:",   "c10d::"};
    return category == "cpu_op" || category == "python_function" || category == "cuda_runtime" ||
           category == "cuda_driver" || name.find("Backward0") != std::string_view::npos ||
           name.find("::") != std::string_view::npos || name.starts_with("DistributedDataParallel") ||
           std::ranges::any_of(kStarts, [&](std::string_view each) { return name.starts_with(each); });
}

struct RuleGroup {
    std::string pattern;
    std::map<std::string, std::string> kinds;  // by word
    std::size_t matches = 0;
    std::string example;
};

SuggestedRule rule_of(const RuleGroup& group) {
    SuggestedRule rule;
    rule.matches = group.matches;
    rule.example = group.example;
    rule.name = fmt::format("ranges such as '{}'", group.example);
    const auto& [word, kind] = *group.kinds.begin();
    std::string part = escaped_for_rules(word);
    if (group.kinds.size() == 1) {
        rule.kind = kind;
    } else {
        part.clear();
        for (const auto& [each, its_kind] : group.kinds) {
            part += (part.empty() ? "(?<kind>" : "|") + escaped_for_rules(each);
            rule.kinds.emplace_back(each, its_kind);
        }
        part += ")";
    }
    rule.pattern = group.pattern;
    rule.pattern.replace(rule.pattern.find('\x01'), 1, part);
    return rule;
}
}  // namespace

std::vector<SuggestedRule> suggest_rules(const std::vector<OpenedTrace>& traces, const TaskRules& known) {
    std::map<std::string, std::size_t, std::less<>> counts;  // by name
    for (const OpenedTrace& trace : traces) {
        std::vector<std::size_t> own(trace.names.size());
        for (const RangeTrack& track : trace.tracks) {
            if (is_of_device(track.kind)) {
                continue;
            }
            for (const TraceRange& range : track.ranges) {
                const bool counts_here = range.correlation == 0 && range.end > range.start;
                if (counts_here && !is_of_library(trace.names[range.name], trace.names.at(range.category))) {
                    ++own[range.name];
                }
            }
        }
        for (std::size_t name = 0; name < own.size(); ++name) {
            if (own[name] > 0) {
                counts[std::string(without_call(trace.names[name]))] += own[name];
            }
        }
    }
    std::map<std::string, RuleGroup> groups;
    std::map<std::string, RuleGroup> steps;  // by what precedes the number
    for (const auto& [name, count] : counts) {
        if (known.meaning_of(name)) {
            continue;
        }
        if (usual_step_number(name)) {
            const std::string before = name.substr(0, name.find_last_not_of("0123456789") + 1);
            RuleGroup& group = steps[before];
            group.matches += count;
            group.example = group.example.empty() ? name : group.example;
            group.pattern = escaped_for_rules(before) + "(?<step>\\d+)";
            continue;
        }
        if (const std::optional<NameShape> shape = shape_of(name)) {
            RuleGroup& group = groups[shape->key];
            group.pattern = shape->pattern;
            group.kinds.emplace(shape->word, shape->kind);
            group.matches += count;
            group.example = group.example.empty() ? name : group.example;
        }
    }
    std::vector<SuggestedRule> rules;
    for (const auto& [key, group] : groups) {
        rules.push_back(rule_of(group));
    }
    for (const auto& [before, group] : steps) {
        rules.push_back({fmt::format("steps such as '{}'", group.example),
                         group.pattern,
                         {},
                         "step",
                         group.matches,
                         group.example});
    }
    std::ranges::stable_sort(rules, std::greater<>(), &SuggestedRule::matches);
    return rules;
}

nlohmann::ordered_json rule_json(const SuggestedRule& rule) {
    nlohmann::ordered_json json{{"name", rule.name}, {"pattern", rule.pattern}};
    if (rule.kinds.empty()) {
        json["kind"] = rule.kind;
    }
    for (const auto& [word, kind] : rule.kinds) {
        json["kinds"][word] = kind;
    }
    return json;
}

std::string rules_file(const std::vector<SuggestedRule>& rules) {
    std::string text = "{\"format\": \"pipescope.task-rules\", \"version\": 1,\n \"rules\": [\n";
    for (std::size_t k = 0; k < rules.size(); ++k) {
        text += "   " + rule_json(rules[k]).dump() + (k + 1 < rules.size() ? ",\n" : "\n");
    }
    return text + " ]}\n";
}
}  // namespace pipescope
