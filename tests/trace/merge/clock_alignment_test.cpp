#include "trace/merge/clock_alignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace pipescope {
namespace {
Nanoseconds ns(double value) {
    return Nanoseconds{std::llround(value)};
}

/// A process's true clock: rank 0's time is own + offset + drift * own.
struct TrueClock {
    double offset = 0;
    double drift = 0;

    double to_rank_0(double own) const { return own + offset + drift * own; }
    double own(double rank_0) const { return (rank_0 - offset) / (1 + drift); }
    /// Its readings at these own times, with an error of at most `bound`.
    RankClock read(double first, double last, double bound, double first_error, double last_error) const {
        const auto reading = [&](double at, double error) {
            return ClockReading{ns(at), ns(to_rank_0(at) - at + error), ns(bound)};
        };
        return RankClock({reading(first, first_error), reading(last, last_error)});
    }
};

constexpr double kOneSecond = 1e9;

TEST(RankClock, FollowsOffsetAndDrift) {
    for (const double offset : {-1000 * kOneSecond, 1000 * kOneSecond}) {
        for (const double drift : {-50e-6, 0.0, 50e-6}) {
            const TrueClock clock{offset, drift};
            const RankClock map = clock.read(2 * kOneSecond, 602 * kOneSecond, 30000, 0, 0);
            for (const double own : {2.0, 100.0, 301.5, 602.0}) {
                EXPECT_NEAR(static_cast<double>(map.to_rank_0(ns(own * kOneSecond)).count()),
                            clock.to_rank_0(own * kOneSecond), 2);
            }
            EXPECT_EQ(map.bound(), ns(30000));
        }
    }
}

TEST(RankClock, KeepsTheOrderOfTimes) {
    // Two readings so close that their errors outweigh the time between them.
    const RankClock map({{ns(1000), ns(50000), ns(40000)}, {ns(2000), ns(-40000), ns(45000)}});
    EXPECT_EQ(map.to_rank_0(ns(1000)), ns(51000));
    for (std::int64_t own = 0; own < 3000; own += 10) {
        EXPECT_LT(map.to_rank_0(Nanoseconds{own}), map.to_rank_0(Nanoseconds{own + 10}));
    }
}

TEST(RankClock, IsTheIdentityWithoutAReading) {
    EXPECT_EQ(RankClock().to_rank_0(ns(77)), ns(77));
    EXPECT_EQ(RankClock().bound(), ns(0));
}

TEST(AlignClocks, LeavesClocksAloneIfNoMessageComesTooEarly) {
    const TrueClock clock{5 * kOneSecond, 0};
    const ClockMessage message{0, 1, ns(clock.to_rank_0(kOneSecond)), ns(kOneSecond + 60000)};
    const AlignedClocks aligned =
        align_clocks({RankClock(), clock.read(0, 2 * kOneSecond, 30000, 20000, -20000)}, std::vector{message});
    EXPECT_EQ(aligned.largest_shift, ns(0));
    EXPECT_EQ(aligned.impossible, 0U);
    EXPECT_EQ(aligned.clocks[1].bound(), ns(30000));
    EXPECT_EQ(aligned.contradicted, (std::vector<bool>{false, false}));
}

TEST(AlignClocks, PutsMessagesInOrderWithinTheBounds) {
    // The clock seems 25 us behind, so messages to it seem to come before they were sent.
    const TrueClock clock{-1000 * kOneSecond, 50e-6};
    const RankClock measured = clock.read(0, 100 * kOneSecond, 30000, -25000, -25000);
    std::vector<ClockMessage> messages;
    for (int k = 1; k < 100; ++k) {
        const double sent = clock.to_rank_0(k * kOneSecond);
        messages.push_back({0, 1, ns(sent), ns(clock.own(sent + 5000))});
        messages.push_back({1, 0, ns(clock.own(sent)), ns(sent + 5000)});
    }
    const AlignedClocks aligned = align_clocks({RankClock(), measured}, messages);
    EXPECT_EQ(aligned.impossible, 0U);
    EXPECT_GT(aligned.largest_shift, ns(19000));
    EXPECT_LE(aligned.largest_shift, ns(30000));
    for (const ClockMessage& message : messages) {
        EXPECT_LE(aligned.clocks[message.sender].to_rank_0(message.sent),
                  aligned.clocks[message.receiver].to_rank_0(message.came));
    }
    // Messages of 5 us in both directions pin the offset.
    EXPECT_NEAR(static_cast<double>(aligned.clocks[1].to_rank_0(ns(50 * kOneSecond)).count()),
                clock.to_rank_0(50 * kOneSecond), 5010);
    EXPECT_GE(aligned.clocks[1].bound(), ns(30000) + aligned.largest_shift - ns(1));
}

TEST(AlignClocks, CorrectsTheDriftToo) {
    // Right at the first reading, wrong at the last: a shift of the whole clock would break the first messages.
    const TrueClock clock{3 * kOneSecond, 0};
    const RankClock measured = clock.read(0, 100 * kOneSecond, 30000, 0, -28000);
    std::vector<ClockMessage> messages;
    for (const double own : {0.0, 100.0}) {
        const double sent = clock.to_rank_0(own * kOneSecond);
        messages.push_back({0, 1, ns(sent), ns(own * kOneSecond + 100)});
        messages.push_back({1, 0, ns(own * kOneSecond), ns(sent + 100)});
    }
    const AlignedClocks aligned = align_clocks({RankClock(), measured}, messages);
    EXPECT_EQ(aligned.impossible, 0U);
    for (const double own : {0.0, 50.0, 100.0}) {
        EXPECT_NEAR(static_cast<double>(aligned.clocks[1].to_rank_0(ns(own * kOneSecond)).count()),
                    clock.to_rank_0(own * kOneSecond), 110);
    }
}

TEST(AlignClocks, OrdersARingOfProcesses) {
    std::mt19937 random(11);
    std::uniform_real_distribution<double> error(-30000, 30000);
    std::vector<TrueClock> clocks = {{}};
    std::vector<RankClock> measured = {RankClock()};
    for (int rank = 1; rank < 8; ++rank) {
        clocks.push_back({error(random) * 1e6, 10e-6 * rank});
        measured.push_back(clocks.back().read(clocks.back().own(0), clocks.back().own(60 * kOneSecond), 30000,
                                              error(random), error(random)));
    }
    std::vector<ClockMessage> messages;
    for (int k = 0; k < 4000; ++k) {
        const std::size_t from = random() % 8;
        const std::size_t to = (from + (random() % 2 == 0 ? 1 : 7)) % 8;
        const double sent = (1 + k * 0.01) * kOneSecond;
        messages.push_back({from, to, ns(clocks[from].own(sent)), ns(clocks[to].own(sent + 15000) + 1)});
    }
    const AlignedClocks aligned = align_clocks(measured, messages);
    EXPECT_EQ(aligned.impossible, 0U) << aligned.worst.count();
    EXPECT_GT(aligned.largest_shift, ns(0));
    EXPECT_LE(aligned.largest_shift, ns(30000));
}

TEST(AlignClocks, CountsWhatTheBoundsDoNotAllow) {
    const TrueClock clock{0, 0};
    const std::vector<ClockMessage> messages = {{0, 1, ns(kOneSecond), ns(kOneSecond - 50000)},
                                                {0, 1, ns(kOneSecond), ns(kOneSecond + 1)}};
    const AlignedClocks aligned = align_clocks({RankClock(), clock.read(0, 2 * kOneSecond, 30000, 0, 0)}, messages);
    EXPECT_EQ(aligned.impossible, 1U);
    EXPECT_EQ(aligned.worst, ns(20000));
    EXPECT_EQ(aligned.largest_shift, ns(30000));
    EXPECT_EQ(aligned.contradicted, (std::vector<bool>{false, true}));
    EXPECT_EQ(align_clocks({RankClock(), RankClock()}, messages).worst, ns(50000));
}
TEST(WallClocks, StayWhereMessagesAllowIt) {
    const std::vector<Nanoseconds> offsets{Nanoseconds{0}, Nanoseconds{-500}};
    const std::vector<ClockMessage> messages{{0, 1, Nanoseconds{1000}, Nanoseconds{1600}},   // 100 on its way
                                             {1, 0, Nanoseconds{2000}, Nanoseconds{1900}}};  // 400
    const WallClocks clocks = align_wall_clocks(offsets, messages);
    EXPECT_EQ(clocks.aligned.clocks[1].to_rank_0(Nanoseconds{1600}), Nanoseconds{1100});
    EXPECT_EQ(clocks.aligned.clocks[1].bound(), Nanoseconds{400});
    EXPECT_EQ(clocks.aligned.largest_shift, Nanoseconds{0});
    EXPECT_EQ(clocks.checked, (std::vector<bool>{true, true}));
}

TEST(WallClocks, MoveIfAMessageWouldComeBeforeItWasSent) {
    const std::vector<Nanoseconds> offsets{Nanoseconds{0}, Nanoseconds{0}, Nanoseconds{0}, Nanoseconds{7}};
    const std::vector<ClockMessage> messages{{0, 1, Nanoseconds{1000}, Nanoseconds{400}},  // -600
                                             {1, 0, Nanoseconds{500}, Nanoseconds{1300}},  // 800
                                             {1, 2, Nanoseconds{500}, Nanoseconds{530}},   // on the host of 1
                                             {2, 1, Nanoseconds{600}, Nanoseconds{620}},
                                             {2, 3, Nanoseconds{600}, Nanoseconds{620}}};
    const WallClocks clocks = align_wall_clocks(offsets, messages);
    EXPECT_EQ(clocks.aligned.clocks[1].to_rank_0(Nanoseconds{0}), Nanoseconds{700});  // 100 each way
    EXPECT_EQ(clocks.aligned.clocks[1].bound(), Nanoseconds{100});
    EXPECT_EQ(clocks.aligned.clocks[2].to_rank_0(Nanoseconds{0}), Nanoseconds{700});
    EXPECT_EQ(clocks.aligned.clocks[2].bound(), Nanoseconds{130});
    EXPECT_EQ(clocks.checked, (std::vector<bool>{true, true, true, false}));
    EXPECT_EQ(clocks.aligned.contradicted, (std::vector<bool>{false, false, false, false}));
    EXPECT_EQ(clocks.aligned.largest_shift, Nanoseconds{700});
}

TEST(WallClocks, AreBoundMoreTightlyByEventsThatAgree) {
    const std::vector<Nanoseconds> offsets{Nanoseconds{0}, Nanoseconds{0}};
    const std::vector<ClockMessage> messages{{0, 1, Nanoseconds{1000}, Nanoseconds{2000}},
                                             {1, 0, Nanoseconds{3000}, Nanoseconds{4000}}};
    const std::vector<ClockMessage> agreements{{0, 1, Nanoseconds{5000}, Nanoseconds{5310}},   // 310 later
                                               {1, 0, Nanoseconds{6290}, Nanoseconds{6000}}};  // 290 later
    EXPECT_EQ(align_wall_clocks(offsets, messages).aligned.clocks[1].bound(), Nanoseconds{1000});
    const WallClocks clocks = align_wall_clocks(offsets, messages, agreements);
    EXPECT_EQ(clocks.aligned.clocks[1].to_rank_0(Nanoseconds{0}), Nanoseconds{-300});
    EXPECT_EQ(clocks.aligned.clocks[1].bound(), Nanoseconds{10});
    EXPECT_EQ(clocks.aligned.impossible, 0U);
}

TEST(WallClocks, AreContradictedByMessagesThatNoOffsetPutsInOrder) {
    const std::vector<Nanoseconds> offsets(4, Nanoseconds{0});
    const std::vector<ClockMessage> messages{{0, 1, Nanoseconds{1000}, Nanoseconds{400}},  // -600
                                             {1, 0, Nanoseconds{500}, Nanoseconds{900}},   // 400
                                             {1, 2, Nanoseconds{500}, Nanoseconds{530}},   // reached over 1 alone
                                             {2, 1, Nanoseconds{600}, Nanoseconds{620}},
                                             {0, 3, Nanoseconds{500}, Nanoseconds{1500}},  // reached directly
                                             {3, 0, Nanoseconds{500}, Nanoseconds{1500}}};
    const WallClocks clocks = align_wall_clocks(offsets, messages);
    EXPECT_EQ(clocks.aligned.clocks[1].to_rank_0(Nanoseconds{0}), Nanoseconds{500});  // -100 each way
    EXPECT_EQ(clocks.aligned.impossible, 2U);
    EXPECT_EQ(clocks.aligned.worst, Nanoseconds{100});
    EXPECT_EQ(clocks.aligned.contradicted, (std::vector<bool>{false, true, true, false}));
    EXPECT_EQ(clocks.aligned.clocks[3].bound(), Nanoseconds{1000});
    EXPECT_EQ(clocks.checked, (std::vector<bool>{true, true, true, true}));
}
}  // namespace
}  // namespace pipescope
