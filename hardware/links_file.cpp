#include "hardware/links_file.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text_file.h"

#include <cmath>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kLinksFormat = "pipescope.links";
constexpr const char* kLinksRemedy = "correct it, or measure again; see docs/links-format.md";
constexpr JsonKind kLinksJson{"a links file", kLinksRemedy,
                              "it must be a number; correct it, or measure again; see docs/links-format.md",
                              throw_error<ProfileError>};
using Value = JsonValue<Json>;

LinkTime time_of(const Value& value) {
    JsonObject<Json> object = value.object("an object with bytes and ns");
    object.allow({"bytes", "ns", "exchange_ns"}, "times");
    constexpr double kMostBytes = 1e15;
    const Value size = object.at("bytes");
    const double bytes = size.number();
    if (!(bytes >= 0 && bytes <= kMostBytes) || bytes != std::floor(bytes)) {
        size.refuse("a whole number from 0 to 1e15");
    }
    const std::optional<Value> exchange = object.find("exchange_ns");
    const LinkTime time{std::llround(bytes), object.at("ns").number(), exchange ? exchange->number() : 0};
    if (time.exchange_ns > 0 && time.exchange_ns < time.ns) {
        exchange->refuse("at least ns, since two messages take no less than one");
    }
    return time;
}
}  // namespace

std::vector<LinkTime> read_link_times(const JsonValue<Json>& times) {
    return times.list("a list of objects with bytes and ns", time_of);
}

std::vector<LinkTime> parse_links(std::string_view json) {
    const Json document = parse_json(json, kLinksJson);
    if (!document.is_object() || document.value("format", Json()) != Json(kLinksFormat) ||
        document.value("version", Json()) != Json(1)) {
        throw ProfileError(std::string("format is not ") + kLinksFormat +
                           " of version 1; every links file declares that; see docs/links-format.md");
    }
    JsonObject<Json> object = Value(document, "", kLinksJson).object();
    object.allow({"format", "version", "times"}, "links file");
    Link link;
    link.times = read_link_times(object.at("times", "every links file has it; add it; see docs/links-format.md"));
    check_link(link);
    if (link.times.empty()) {
        throw ProfileError("times is empty; a links file holds the times of at least two sizes; measure some");
    }
    return link.times;
}

std::vector<LinkTime> load_links(const std::filesystem::path& path) {
    const std::string text = read_text_as<ProfileError>(path, {"a links file", kLinksRemedy});
    try {
        return parse_links(text);
    } catch (const Error& fault) {
        throw ProfileError(path.string() + ": " + fault.what());
    }
}

std::string links_json(const std::vector<LinkTime>& times) {
    Json document{{"format", kLinksFormat}, {"version", 1}, {"times", Json::array()}};
    for (const LinkTime& each : times) {
        Json time{{"bytes", each.bytes}, {"ns", each.ns}};
        if (each.exchange_ns > 0) {
            time["exchange_ns"] = each.exchange_ns;
        }
        document["times"].push_back(std::move(time));
    }
    return dumped(document);
}
}  // namespace pipescope
