#include "trace/merge/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
// Goes a little beyond the boundary, so that a solution is reached and survives the rounding to ns.
constexpr double kMargin = 2;
constexpr std::size_t kMostPasses = 1000;
constexpr std::size_t kMostChecks = 100'000'000;  // some seconds
}  // namespace

RankClock::RankClock(const std::vector<ClockReading>& readings) {
    if (!readings.empty()) {
        first_ = readings.front();
        last_ = readings.back();
    }
    // Two readings closer than their possible error, or out of order, say nothing about a drift.
    const Nanoseconds difference = std::chrono::abs(last_.offset - first_.offset) + first_.bound + last_.bound;
    if (last_.at - first_.at <= 2 * difference) {
        first_ = last_ = first_.bound <= last_.bound ? first_ : last_;
    }
}

double RankClock::weight_of_last(Nanoseconds own) const {
    if (own <= first_.at || last_.at <= first_.at) {
        return 0;
    }
    const auto ns = [](Nanoseconds time) { return static_cast<double>(time.count()); };
    return own >= last_.at ? 1 : ns(own - first_.at) / ns(last_.at - first_.at);
}

Nanoseconds RankClock::to_rank_0(Nanoseconds own) const {
    const double weight = weight_of_last(own);
    const double beyond_first = (1 - weight) * first_shift_ +
                                weight * (static_cast<double>((last_.offset - first_.offset).count()) + last_shift_);
    return own + first_.offset + Nanoseconds{std::llround(beyond_first)};
}

std::vector<ClockReading> RankClock::readings() const {
    const auto shifted = [](ClockReading reading, double shift) {
        const Nanoseconds by{std::llround(shift)};
        reading.offset += by;
        reading.bound += std::chrono::abs(by);
        return reading;
    };
    if (first_ == last_) {
        return {shifted(first_, first_shift_)};
    }
    return {shifted(first_, first_shift_), shifted(last_, last_shift_)};
}

Nanoseconds RankClock::bound() const {
    Nanoseconds most{0};
    for (const ClockReading& reading : readings()) {
        most = std::max(most, reading.bound);
    }
    return most;
}

/// The inequalities, and one step of their solution.
class ClockAlignment {
public:
    explicit ClockAlignment(std::vector<RankClock> clocks) : clocks_(std::move(clocks)) {}

    /// Time on the way; negative if the message comes before it was sent.
    std::int64_t travel(const ClockMessage& message) const {
        return (clocks_[message.receiver].to_rank_0(message.came) - clocks_[message.sender].to_rank_0(message.sent))
            .count();
    }
    /// True if some shifts within the bounds break the inequality. Call it before any shift.
    bool can_break(const ClockMessage& message) const {
        const Nanoseconds shifts = clocks_[message.sender].bound() + clocks_[message.receiver].bound();
        return static_cast<double>(travel(message)) <= static_cast<double>(shifts.count()) + kMargin;
    }

    /// Moves the four offsets to the boundary.
    void satisfy(const ClockMessage& message) {
        RankClock& sender = clocks_[message.sender];
        RankClock& receiver = clocks_[message.receiver];
        const double sent = sender.weight_of_last(message.sent);
        const double came = receiver.weight_of_last(message.came);
        const double norm = movable(sender) * squares(sent) + movable(receiver) * squares(came);
        if (norm > 0) {
            const double step = (kMargin - static_cast<double>(travel(message))) / norm;
            move(sender, sent, -step);
            move(receiver, came, step);
        }
    }

    std::vector<RankClock> take() { return std::move(clocks_); }
    Nanoseconds largest_shift() const {
        double largest = 0;
        for (const RankClock& clock : clocks_) {
            largest = std::max({largest, std::abs(clock.first_shift_), std::abs(clock.last_shift_)});
        }
        return Nanoseconds{std::llround(largest)};
    }

private:
    static double movable(const RankClock& clock) {
        return clock.first_.bound + clock.last_.bound > Nanoseconds{0} ? 1 : 0;
    }
    static double squares(double weight) { return weight * weight + (1 - weight) * (1 - weight); }
    static void move(RankClock& clock, double weight, double step) {
        const auto within = [](double shift, Nanoseconds bound) {
            const auto most = static_cast<double>(bound.count());
            return std::clamp(shift, -most, most);
        };
        clock.first_shift_ = within(clock.first_shift_ + (1 - weight) * step, clock.first_.bound);
        clock.last_shift_ = within(clock.last_shift_ + weight * step, clock.last_.bound);
    }

    std::vector<RankClock> clocks_;
};

namespace {
/// Counts the messages that are still impossible with the aligned clocks, and marks the clocks that they contradict. A
/// message contradicts neither clock unless both were checked.
void find_impossible(std::span<const ClockMessage> messages, AlignedClocks& aligned, const std::vector<bool>& checked) {
    aligned.contradicted.resize(aligned.clocks.size());
    for (const ClockMessage& each : messages) {
        const Nanoseconds early =
            aligned.clocks[each.sender].to_rank_0(each.sent) - aligned.clocks[each.receiver].to_rank_0(each.came);
        if (early > Nanoseconds{0}) {
            ++aligned.impossible;
            aligned.worst = std::max(aligned.worst, early);
            for (const std::size_t clock : {each.sender, each.receiver}) {
                if (clock != 0 && checked[each.sender] && checked[each.receiver]) {
                    aligned.contradicted[clock] = true;
                }
            }
        }
    }
}
}  // namespace

AlignedClocks align_clocks(std::vector<RankClock> clocks, std::span<const ClockMessage> messages) {
    ClockAlignment alignment(std::move(clocks));
    std::vector<ClockMessage> near;
    std::ranges::copy_if(messages, std::back_inserter(near),
                         [&](const ClockMessage& each) { return alignment.can_break(each); });
    const std::size_t passes = std::min(kMostPasses, kMostChecks / std::max<std::size_t>(near.size(), 1));
    bool in_order = false;
    for (std::size_t pass = 0; pass < passes && !in_order; ++pass) {
        in_order = true;
        for (const ClockMessage& message : near) {
            if (alignment.travel(message) < 0) {
                alignment.satisfy(message);
                in_order = false;
            }
        }
    }
    AlignedClocks aligned;
    aligned.largest_shift = alignment.largest_shift();
    aligned.clocks = alignment.take();
    find_impossible(near, aligned, std::vector<bool>(aligned.clocks.size(), true));
    return aligned;
}

WallClocks align_wall_clocks(std::span<const Nanoseconds> offsets, std::span<const ClockMessage> messages,
                             std::span<const ClockMessage> agreements) {
    std::map<std::pair<std::size_t, std::size_t>, Nanoseconds> least;  // travel time, by sender and receiver
    for (const std::span<const ClockMessage> all : {messages, agreements}) {
        for (const ClockMessage& each : all) {
            const Nanoseconds travel = each.came + offsets[each.receiver] - each.sent - offsets[each.sender];
            const auto [found, fresh] = least.try_emplace({each.sender, each.receiver}, travel);
            found->second = std::min(found->second, travel);
        }
    }
    struct Reached {
        Nanoseconds shift{0};
        Nanoseconds bound{0};
        bool contradicted = false;
    };
    std::vector<std::optional<Reached>> reached(offsets.size());
    if (!reached.empty()) {
        reached[0] = Reached{};
    }
    for (bool grows = true; grows;) {
        grows = false;
        for (const auto& [pair, there] : least) {
            const auto [from, to] = pair;
            const auto back = least.find({to, from});
            if (!reached[from] || to == 0 || back == least.end()) {
                continue;
            }
            const bool differ = there < Nanoseconds{0} || back->second < Nanoseconds{0};
            const Nanoseconds shift = differ ? (back->second - there) / 2 : Nanoseconds{0};
            const Nanoseconds sum = there + back->second;
            const Nanoseconds bound = differ ? std::chrono::abs(sum) / 2 : std::max(there, back->second);
            const Reached over{reached[from]->shift + shift, reached[from]->bound + bound,
                               reached[from]->contradicted || sum < Nanoseconds{0}};
            if (reached[to] && reached[to]->bound <= over.bound) {
                continue;
            }
            reached[to] = over;
            grows = true;
        }
    }
    WallClocks clocks;
    for (std::size_t k = 0; k < offsets.size(); ++k) {
        const Reached clock = reached[k].value_or(Reached{});
        clocks.checked.push_back(reached[k].has_value());
        clocks.aligned.contradicted.push_back(clock.contradicted);
        clocks.aligned.clocks.emplace_back(
            k == 0 ? std::vector<ClockReading>()
                   : std::vector<ClockReading>{{Nanoseconds{0}, offsets[k] + clock.shift, clock.bound}});
        clocks.aligned.largest_shift = std::max(clocks.aligned.largest_shift, std::chrono::abs(clock.shift));
    }
    find_impossible(messages, clocks.aligned, clocks.checked);
    return clocks;
}
}  // namespace pipescope
