#include "answers/option_table.h"

#include "base/number_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace pipescope {
namespace {
[[noreturn]] void refuse_missing(const OptionRow& row) {
    throw UsageError(option_name(row.name) + " is required");
}

void take_value(OptionRow& row, const OptionValue& given) {
    const std::string name = option_name(row.name);
    if (const bool* on = std::get_if<bool>(&given.value)) {
        if (!row.is_flag()) {
            throw UsageError(fmt::format("{} is {}; it takes a number or a text; leave it out for its default", name,
                                         *on ? "True" : "False"));
        }
        if (*on) {
            row.given = "";
            row.take("");
        }
        return;
    }
    const std::string* text = std::get_if<std::string>(&given.value);
    const std::vector<std::string>* items = std::get_if<std::vector<std::string>>(&given.value);
    if (row.is_flag()) {
        throw UsageError(
            fmt::format("{} is {}; it is True or False", name, text != nullptr ? *text : fmt::format("{}", *items)));
    }
    if (items != nullptr && row.take_items) {
        row.given = fmt::format("{}", fmt::join(*items, ","));
        row.take_items(*items);
    } else {
        row.set(text != nullptr ? *text : fmt::format("{}", fmt::join(*items, ",")));
    }
}
}  // namespace

void OptionRow::set(const std::string& text) {
    if (text.empty()) {
        throw UsageError(option_name(name) + ": its value is empty; give one, or leave it out");
    }
    given = text;
    take(text);
}

std::int64_t parse_whole_number(const std::string& text, const std::string& option, std::int64_t most) {
    const std::size_t first = text.find_first_of("0123456789");
    if (first != std::string::npos && first + 1 < text.size() && text[first] == '0' && text[first + 1] != '.') {
        throw UsageError(option + ": " + text + " begins with 0; numbers are decimal; leave out the 0");
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc::result_out_of_range) {
        throw UsageError(option + ": " + text + " is too large; at most 2^63 - 1 can be counted; use less");
    }
    if (error != std::errc() || end != text.data() + text.size()) {
        throw UsageError(fmt::format("{} is '{}'; it must be a whole number; write it as 4", option, text));
    }
    if (number > most || number < -most - 1) {
        throw UsageError(
            fmt::format("{} is {}; a number here is at most {}, with either sign; change it", option, text, most));
    }
    return number;
}

OptionRow& OptionTable::add_row(const std::string& names, const std::string& help, const std::string& type,
                                const std::string& group) {
    OptionRow row;
    for (const std::string& each : parse_list(names, "names")) {
        if (!each.starts_with("--")) {
            row.short_name = each.substr(1);
        } else {
            (row.name.empty() ? row.name : row.alias) = each.substr(2);
        }
    }
    row.help = help;
    row.value = type;
    row.group = group;
    return rows_.emplace_back(std::move(row));
}

OptionRow& OptionTable::add_list(const std::string& names, std::vector<std::string>& value, const std::string& help,
                                 const std::string& type, const std::string& group) {
    OptionRow& row = add(names, value, parse_list, help, type, group);
    row.take_items = [&row, &value](const std::vector<std::string>& items) {
        if (items.empty()) {
            row.set("");
        }
        value = items;
    };
    return row;
}

OptionRow& OptionTable::add_flag(const std::string& name, bool& value, const std::string& help,
                                 const std::string& group) {
    OptionRow& row = add_row(name, help, "", group);
    row.take = [&value](const std::string&) { value = true; };
    return row;
}

OptionRow& OptionTable::row(std::string_view name) {
    return *std::ranges::find(rows_, name, &OptionRow::name);
}
const OptionRow& OptionTable::row(std::string_view name) const {
    return *std::ranges::find(rows_, name, &OptionRow::name);
}

void OptionTable::use_from(std::size_t first, OptionUse use) {
    for (; first < rows_.size(); ++first) {
        rows_[first].use = use;
    }
}

void OptionTable::require(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
        row(name).required = true;
    }
}

bool OptionTable::is_given(std::string_view name) const {
    return std::ranges::any_of(rows_, [&](const OptionRow& row) { return row.name == name && row.given; });
}

void OptionTable::take(const std::vector<OptionValue>& values) {
    for (OptionRow& row : rows_) {
        if (const auto given = std::ranges::find(values, row.name, &OptionValue::name); given != values.end()) {
            take_value(row, *given);
        }
    }
    for (const OptionRow& row : rows_) {
        if (row.required && !row.given) {
            refuse_missing(row);
        }
    }
}

void OptionTable::check_use(bool has_cluster) const {
    for (const OptionRow& row : rows_) {
        if (!row.given) {
            continue;
        }
        if (!has_cluster && row.use == OptionUse::cluster) {
            throw UsageError(option_name(row.name) + " is given without " + option_name("cluster") +
                             "; it describes a layout on a cluster; " + kClusterRemedy);
        }
        if (has_cluster && row.use == OptionUse::lanes) {
            refuse_with_cluster(row.name);
        }
    }
}

void refuse_with_cluster(const std::string& name) {
    const std::string instead = name == "chunks" ? "micro-batch-size" : name == "replicas" ? "data-parallel" : "";
    const std::string remedy = name == "pair-overlap" ? "write it as pair_overlap of a program (docs/program-format.md)"
                               : instead.empty()      ? "leave it out"
                                                      : "use " + option_name(instead) + " instead";
    throw UsageError(option_name(name) + " is given with " + option_name("cluster") +
                     "; a layout on a cluster has no such option; " + remedy);
}
}  // namespace pipescope
