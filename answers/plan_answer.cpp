#include "answers/plan_answer.h"

#include "answers/pipeline_rows.h"
#include "answers/plan_report.h"
#include "answers/profile_again.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/number_text.h"
#include "simulator/schedule_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

namespace pipescope {
void check_most(const PlanQuestion& question) {
    if (question.most < 1) {
        throw UsageError(
            fmt::format("{} is {}; a table has at least 1 row; write it as 10", option_name("most"), question.most));
    }
}

namespace {
constexpr NumberRange kPartitions{1, 8};
constexpr NumberRange kChunks{1, 64};
constexpr std::int64_t kMostReplicas = 4096;

bool same_name(const std::string& a, const std::string& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char left, unsigned char right) {
        return std::tolower(left) == std::tolower(right);
    });
}

double parse_price(const std::string& text, const std::string& all) {
    const auto price = number_in<double>(text);
    if (!price || !(*price >= 0 && *price <= 1e12)) {
        throw UsageError(
            fmt::format("{} is '{}'; '{}' is no price; write it as 2.5, or by device type as A100=1.5,H100=3",
                        option_name("price-per-lane-hour"), all, text));
    }
    return *price;
}

/// Parses "2.5" for all lanes, or "A100=1.5,H100=3". Returns the names that are not planned types.
std::vector<std::string> read_prices(const PlanQuestion& question, PlanRequest& request) {
    const std::string text = question.price.value_or("1");
    std::vector<std::string> unused;
    std::vector<std::string> priced;  // the empty name is the default price
    for (const std::string& item : parse_list(text, option_name("price-per-lane-hour"))) {
        const std::size_t equals = item.find('=');
        const std::string name = equals == std::string::npos ? "" : item.substr(0, equals);
        if (std::ranges::any_of(priced, [&](const std::string& earlier) { return same_name(earlier, name); })) {
            throw UsageError(fmt::format("{} is '{}'; {} has two prices; give one", option_name("price-per-lane-hour"),
                                         text, name.empty() ? "a lane" : name));
        }
        priced.push_back(name);
        if (equals == std::string::npos) {
            request.price_per_lane_hour = parse_price(item, text);
            for (const DeviceType& type : request.device_types) {
                if (question.price) {  // overrides the catalogue, but not a price for the type itself
                    request.prices.emplace(type.name, request.price_per_lane_hour);
                }
            }
            continue;
        }
        const auto named = std::ranges::find_if(request.device_types,
                                                [&](const DeviceType& type) { return same_name(type.name, name); });
        const double price = parse_price(item.substr(equals + 1), text);
        if (named == request.device_types.end()) {
            unused.push_back(name);
        } else {
            request.prices[named->name] = price;
        }
    }
    return unused;
}

bool has_own_price(const DeviceType& type, const PlanRequest& request) {
    return type.price_per_hour > 0 || request.prices.contains(type.name);
}

bool any_has_own_price(const PlanRequest& request) {
    return std::ranges::any_of(request.device_types,
                               [&](const DeviceType& type) { return has_own_price(type, request); });
}

/// Sentences about unused prices, and about types without a price if other types have one.
std::vector<std::string> price_notes_of(const std::vector<std::string>& unused, const PlanRequest& request) {
    std::vector<std::string> notes;
    for (const std::string& name : unused) {
        notes.push_back(fmt::format("the price of '{}' is not used; it is not among the --device-types", name));
    }
    for (const DeviceType& type : request.device_types) {
        if (any_has_own_price(request) && !has_own_price(type, request)) {
            notes.push_back(
                fmt::format("{} has no price; it is counted as {:g} per hour", type.name, request.price_per_lane_hour));
        }
    }
    return notes;
}

std::string cost_unit(const PlanQuestion& question, const PlanRequest& request) {
    const std::vector<std::string> prices =
        parse_list(question.price.value_or("1"), option_name("price-per-lane-hour"));
    const bool for_all = question.price && std::ranges::any_of(prices, [](const std::string& price) {
                             return price.find('=') == std::string::npos;
                         });
    return for_all || any_has_own_price(request) ? "price per million samples" : "lane-hours per million samples";
}

/// The ranges that the user gave, else those in the schedules' files, else the default.
template <class Member>
std::vector<NumberRange> or_of_files(const std::optional<std::vector<NumberRange>>& given, const PlanRequest& request,
                                     const NumberRange& usual, Member member) {
    if (given) {
        return *given;
    }
    std::vector<NumberRange> ranges;
    for (const Schedule& schedule : request.schedules) {
        if (const Schedule::File* file = schedule.file()) {
            const int own = std::invoke(member, file->shape);
            ranges.push_back({own, own});
        }
    }
    return ranges.empty() ? std::vector{usual} : ranges;
}

/// The part that does not depend on the profile, so that a wrong question is refused before the profile is read.
PlanRequest request_of(const PlanQuestion& question, std::int64_t batch, std::vector<std::string>& unused_prices) {
    PlanRequest request = question.request;
    if (!question.rank_by.empty()) {
        request.goal = parse_plan_goal(question.rank_by);
    }
    request.chunks =
        chunks_to_try(or_of_files(question.chunks, request, kChunks, &PipelineShape::num_micro_batches), batch);
    request.replicas = partitions_to_try(question.replicas,
                                         static_cast<std::size_t>(std::clamp<std::int64_t>(batch, 1, kMostReplicas)));
    request.device_types = named_device_types(question.pipeline);
    unused_prices = read_prices(question, request);
    check_most(question);
    request.most_with_noise = std::max(request.most_with_noise, static_cast<std::size_t>(question.most));
    return request;
}

}  // namespace

PlanAnswer plan_answer(const PlanQuestion& question, const CheckedProfile& given,
                       const std::function<bool(double)>& progress) {
    std::vector<std::string> unused_prices;
    PipelineOptions options = pipeline_options(question.pipeline);
    PlanRequest request = request_of(question, options.batch, unused_prices);
    PlanAnswer answer{{}, in_dtype(given, question.pipeline, question.profile), {}, {}, {}};
    const CheckedProfile& profile = answer.profile;
    request.partitions = partitions_to_try(
        or_of_files(question.partitions, request, kPartitions, &PipelineShape::num_lanes), profile->layers.size());
    const auto layers = static_cast<int>(std::min<std::size_t>(profile->layers.size(), kMostPartitions));
    answer.assumptions = assume(options, profile, layers, question.pipeline.given());
    take_options(request, options);
    request.progress = progress;
    answer.plan = plan(profile, request);
    answer.cost_unit = cost_unit(question, request);
    answer.price_notes = price_notes_of(unused_prices, request);
    return answer;
}

nlohmann::ordered_json to_json(const PlanAnswer& answer) {
    auto object = plan_json(answer.plan);
    object["cost_unit"] = answer.cost_unit;
    object["assumed"] = assumptions_json(answer.assumptions);
    return object;
}

void check_plan(const PlanQuestion& question) {
    std::vector<std::string> unused_prices;
    request_of(question, pipeline_options(question.pipeline).batch, unused_prices);
}

namespace {
/// Warns if the largest number of micro-batches that the user gave is too large.
std::string fewer_than_asked(const PlanQuestion& question) {
    std::int64_t most = 0;
    for (const NumberRange& range : question.chunks.value_or(std::vector<NumberRange>{})) {
        most = std::max(most, range.last);
    }
    return fewer_micro_batches(most, question.pipeline.options.batch);
}
}  // namespace

std::string to_text(const PlanQuestion& question, const PlanAnswer& answer) {
    const std::string again = profile_command_of(answer.profile, question.profile, {answer.plan.sizes_to_profile, {}});
    return plan_text(answer.plan, {static_cast<std::size_t>(question.most), answer.cost_unit, again}) +
           fewer_than_asked(question) + assumptions_text(answer.assumptions);
}

namespace {
/// Parses "a,b" item by item, and drops repeated items.
template <class Parse>
auto parse_names(const std::string& text, const std::string& option, Parse parse) {
    std::vector<decltype(parse(text))> values;
    for (const std::string& name : parse_list(text, option)) {
        if (const auto value = parse(name); std::ranges::find(values, value) == values.end()) {
            values.push_back(value);
        }
    }
    return values;
}

void add_choices(OptionTable& table, PlanQuestion& question) {
    const char* const group = "Pipeline";
    const std::size_t before = table.rows().size();
    table.add("-n,--partitions", question.partitions, parse_ranges,
              "Numbers of partitions to try, one lane each, up to the model's layers: 4, or 1,2,4, or 1..8 (default)",
              "RANGE", group);
    table.add("-m,--chunks", question.chunks, parse_ranges,
              "Numbers of micro-batches to try, up to the batch: 8, or 4,8,12, or 1..64 (default). From a range: its "
              "ends, the powers of two and the divisors of the batch",
              "RANGE", group);
    add_mini_batch_option(table, question.pipeline);
    table.add(
        "--checkpoint", question.request.checkpoints,
        [](const std::string& text, const std::string& option) { return parse_names(text, option, parse_checkpoint); },
        "Checkpoint modes to try: which micro-batches keep only their input and are recomputed before backward; "
        "default: never,except_last,always",
        "LIST", group);
    table.add(
        "--schedule", question.request.schedules,
        [](const std::string& text, const std::string& option) { return parse_names(text, option, load_schedule); },
        "Schedules to try: names, auto, which finds cuts and order together, or files that end in .csv, which fix -n "
        "and -m unless these are given; default: gpipe,1f1b,interleaved",
        "LIST", group);
    table.add("--replicas", question.replicas, parse_ranges,
              "Numbers of equal pipelines to try, each with an equal part of the mini-batch: 2, or 1,2,4, or 1..8; "
              "default 1. Numbers that do not divide the batch are left out",
              "RANGE", group);
    table.use_from(before, OptionUse::lanes);
    for (const char* name : {"batch", "schedule"}) {
        table.row(name).use = OptionUse::both;
    }
}
}  // namespace

void add_plan_options(OptionTable& table, PlanQuestion& question) {
    add_choices(table, question);
    add_algorithm_option(table, question.request.algorithm);
    add_update_option(table, question.pipeline);
    add_pair_overlap_option(table, question.pipeline);
    add_hardware_options(table, question.pipeline);
    table.row("devices").use = OptionUse::both;  // with a cluster: numbers of devices
    add_device_type_options(table, question.pipeline, "Device types to try, such as A100,H100");
    table
        .add_text("--price-per-lane-hour", question.price,
                  "Price of one lane for an hour, in any currency, or of each device type: A100=1.5,H100=3; "
                  "default: the catalogue's price, or 1, which makes the cost lane-hours",
                  "N", "Hardware")
        .use = OptionUse::lanes;
    table.add_text("--rank-by", question.rank_by,
                   "speed (default): most samples per second first; cost: cheapest first; with --cluster step "
                   "(default), cost or time",
                   "NAME", "Output");
    add_parameter_options(table, question.pipeline);
    table.row("master-weights").use = OptionUse::lanes;
    table.add_number("--most", question.most,
                     "Rows of the table (default 10); at most as many Pareto candidates of lower rank are added. "
                     "--json has all",
                     "N", "Output");
    table.require({"batch"});
}
}  // namespace pipescope
