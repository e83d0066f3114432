#include "hardware/links_file.h"

#include "base/error.h"
#include "base/text_file.h"
#include "profiler/profile/json_path.h"

#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kLinksFormat = "pipescope.links";
constexpr const char* kLinksRemedy = "correct it, or measure again; see docs/links-format.md";

double number(const Json& object, const std::string& path, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) {
        wrong_type(path + "." + key, found == object.end() ? Json("missing") : *found, "a number", kLinksRemedy);
    }
    return found->get<double>() + 0.0;  // -0 is 0
}

LinkTime time_of(const Json& object, const std::string& path) {
    if (!object.is_object()) {
        wrong_type(path, object, "an object with bytes and ns", kLinksRemedy);
    }
    refuse_unknown_keys(object, path, {"bytes", "ns", "exchange_ns"}, "times");
    constexpr double kMostBytes = 1e15;
    const double bytes = number(object, path, "bytes");
    if (!(bytes >= 0 && bytes <= kMostBytes) || bytes != std::floor(bytes)) {
        wrong_type(path + ".bytes", object["bytes"], "a whole number from 0 to 1e15", kLinksRemedy);
    }
    const LinkTime time{std::llround(bytes), number(object, path, "ns"),
                        object.contains("exchange_ns") ? number(object, path, "exchange_ns") : 0};
    if (time.exchange_ns > 0 && time.exchange_ns < time.ns) {
        wrong_type(path + ".exchange_ns", object["exchange_ns"],
                   "at least ns, since two messages take no less than one", kLinksRemedy);
    }
    return time;
}
}  // namespace

std::vector<LinkTime> read_link_times(const Json& times, const std::string& path) {
    return read_array(times, path, "a list of objects with bytes and ns", time_of, kLinksRemedy);
}

std::vector<LinkTime> parse_links(std::string_view json) {
    const Json document = parse_json_with_path(json, "a links file", kLinksRemedy);
    if (!document.is_object() || document.value("format", Json()) != Json(kLinksFormat) ||
        document.value("version", Json()) != Json(1)) {
        throw ProfileError(std::string("format is not ") + kLinksFormat +
                           " of version 1; every links file declares that; see docs/links-format.md");
    }
    refuse_unknown_keys(document, "", {"format", "version", "times"}, "links file");
    const auto list = document.find("times");
    const Json missing;
    Link link;
    link.times = read_link_times(list == document.end() ? missing : *list, "times");
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
