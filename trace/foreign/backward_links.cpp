#include "trace/foreign/backward_links.h"

#include "base/number_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

namespace pipescope {
namespace {
/// The number of emit_nvtx() that an operator shares with its backward: 7 in "aten::mm, seq = 7, op_id = 3".
std::optional<std::int64_t> sequence_in(std::string_view name) {
    constexpr std::string_view kWord = ", seq = ";
    const std::size_t at = name.find(kWord);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view rest = name.substr(at + kWord.size());
    return number_in<std::int64_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

bool is_backward(std::string_view name) {
    return name.starts_with(kAutogradOperator) || name.find("Backward") != std::string_view::npos;
}

/// Of the operators with one number, the last forward one made the backward: the others only ran before the number was
/// given away.
std::vector<RangeArrow> links_by_number(const OpenedTrace& trace) {
    std::vector<std::optional<std::int64_t>> numbers;  // by name
    for (const std::string& name : trace.names) {
        numbers.push_back(sequence_in(name));
    }
    struct Forward {
        Nanoseconds start{0};
        RangeArrow::End place;
    };
    std::unordered_map<std::int64_t, Forward> forwards;
    std::vector<std::pair<std::int64_t, RangeArrow::End>> backwards;
    for (std::uint32_t k = 0; k < trace.tracks.size(); ++k) {
        const std::vector<TraceRange>& ranges = trace.tracks[k].ranges;
        for (std::uint32_t at = 0; !is_of_device(trace.tracks[k].kind) && at < ranges.size(); ++at) {
            const std::optional<std::int64_t> number = numbers.at(ranges[at].name);
            if (!number) {
                continue;
            }
            if (is_backward(trace.names[ranges[at].name])) {
                backwards.emplace_back(*number, RangeArrow::End{k, at});
                continue;
            }
            Forward& last = forwards[*number];
            last = ranges[at].start >= last.start ? Forward{ranges[at].start, {k, at}} : last;
        }
    }
    std::vector<RangeArrow> links;
    for (const auto& [number, backward] : backwards) {
        if (const auto forward = forwards.find(number); forward != forwards.end()) {
            links.push_back({forward->second.place, backward});
        }
    }
    return links;
}
}  // namespace

std::vector<RangeArrow> backward_links(const OpenedTrace& trace) {
    std::vector<RangeArrow> links;
    const auto on_host = [&](const RangeArrow::End& end) { return !is_of_device(trace.tracks.at(end.track).kind); };
    for (const RangeArrow& arrow : trace.arrows) {
        if (on_host(arrow.from) && on_host(arrow.to) &&
            is_backward(trace.names.at(trace.tracks[arrow.to.track].ranges.at(arrow.to.range).name))) {
            links.push_back(arrow);
        }
    }
    links = links.empty() ? links_by_number(trace) : links;
    std::ranges::sort(links, [](const RangeArrow& a, const RangeArrow& b) {
        return std::tie(a.to, a.from) < std::tie(b.to, b.from);
    });
    return links;
}
}  // namespace pipescope
