#include "engine/skips/skip_layout.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SkipName a(const std::string& space = "") {
    return {space, "a"};
}
SkipName b(const std::string& space = "") {
    return {space, "b"};
}
LayerSkips stashes(std::vector<SkipName> names) {
    return {"stash", {std::move(names), {}}};
}
LayerSkips pops(std::vector<SkipName> names) {
    return {"pop", {{}, std::move(names)}};
}
const LayerSkips kPlain{"plain", {}};

template <class... Parts>
void expect_findings(const std::vector<LayerSkips>& layers, const Parts&... parts) {
    EXPECT_THAT(thrown<SkipError>([&] { verify_skippables(layers); }),
                AllOf(HasSubstr(parts)..., HasSubstr("correct the names")));
}

TEST(VerifySkippables, ListsTheSkipsByStashingLayerThenName) {
    const std::vector<LayerSkips> layers = {stashes({b(), a()}), stashes({b("inner")}), pops({a()}),
                                            pops({
                                                b("inner"),
                                            }),
                                            pops({b()})};
    EXPECT_THAT(verify_skippables(layers),
                ElementsAre(Skip{a(), LayerId{0}, {LayerId{2}}}, Skip{b(), LayerId{0}, {LayerId{4}}},
                            Skip{b("inner"), LayerId{1}, {LayerId{3}}}));
    EXPECT_THAT(verify_skippables({}), IsEmpty());
}

TEST(VerifySkippables, ListsTheLayersThatPopASkip) {
    EXPECT_THAT(verify_skippables(std::vector{stashes({a()}), pops({a()}), kPlain, pops({a()}), pops({a()})}),
                ElementsAre(Skip{a(), LayerId{0}, {LayerId{1}, LayerId{3}, LayerId{4}}}));
}

TEST(VerifySkippables, LetsALayerPopOneAndStashAnother) {
    const LayerSkips both{"both", {{b()}, {a()}}};
    EXPECT_EQ(verify_skippables(std::vector{stashes({a()}), both, pops({b()})}).size(), 2u);
}

TEST(VerifySkippables, LetsALayerHaveOneNameInTwoSpacesWhereItPopsOneAndStashesTheOther) {
    const LayerSkips both{"both", {{a("outer")}, {a("inner")}}};
    EXPECT_EQ(verify_skippables(std::vector{stashes({a("inner")}), both, pops({a("outer")})}).size(), 2u);
}

TEST(VerifySkippables, FindsWhatNobodyPops) {
    expect_findings({stashes({a()}), kPlain}, "layer 0 (stash) stashes 'a', which no layer pops");
}
TEST(VerifySkippables, FindsWhatNobodyStashes) {
    expect_findings({kPlain, pops({a()})}, "layer 1 (pop) pops 'a', which no layer stashes");
}
TEST(VerifySkippables, FindsAPopBeforeItsStash) {
    expect_findings({pops({a()}), stashes({a()})}, "layer 0 (pop) pops 'a' before layer 1 (stash) stashes it");
}
TEST(VerifySkippables, FindsASecondStash) {
    expect_findings({stashes({a()}), stashes({a()}), pops({a()})},
                    "layer 1 (stash) stashes 'a' again, after layer 0 (stash)");
}
TEST(VerifySkippables, FindsASecondPopOfOneLayer) {
    expect_findings({stashes({a()}), pops({a()}), pops({a(), a()})}, "layer 2 (pop) pops 'a' twice");
}
TEST(VerifySkippables, FindsThePopThatIsBeforeItsStash) {
    expect_findings({pops({a()}), stashes({a()}), pops({a()})}, "layer 0 (pop) pops 'a' before layer 1 (stash)");
}
TEST(VerifySkippables, FindsANameStashedAndPoppedByOneLayer) {
    expect_findings({{"both", {{a()}, {a()}}}}, "layer 0 (both) both stashes and pops 'a'");
}
TEST(VerifySkippables, FindsNamesThatALayerCannotTellApart) {
    expect_findings({stashes({a("x")}), stashes({a("y")}), pops({a("x"), a("y")})},
                    "layer 2 (pop) pops 'a' of two spaces");
}
TEST(VerifySkippables, TellsEverythingInOneError) {
    expect_findings({stashes({a()}), pops({a()}), stashes({a()}), pops({b()}), stashes({b("x")})},
                    "layer 2 (stash) stashes 'a' again", "layer 3 (pop) pops 'b', which no layer stashes",
                    "layer 4 (stash) stashes 'x/b', which no layer pops");
}

// Routes of skips under a balance. Layers: stash a, plain, pop a or similar, with the given cuts.

SkipLayout layout(const std::vector<LayerSkips>& layers, const std::vector<std::int64_t>& balance,
                  const std::vector<LaneId>& placement = {}) {
    return SkipLayout(layers, Balance(balance), placement);
}
SkipRoute route(int from, int to) {
    return {PartitionId{from}, {PartitionId{to}}};
}

TEST(SkipLayout, HasNoRouteWithoutSkips) {
    const SkipLayout none = layout({kPlain, kPlain}, {1, 1});
    EXPECT_THAT(none.routes(), IsEmpty());
    EXPECT_THAT(none.of(PartitionId{1}).incoming, IsEmpty());
    EXPECT_EQ(none.of(PartitionId{1}).num_slots, 0u);
}

TEST(SkipLayout, KeepsASkipInsideItsPartition) {
    const SkipLayout inside = layout({stashes({a()}), pops({a()}), kPlain}, {2, 1});
    EXPECT_THAT(inside.routes(), ElementsAre(route(0, 0)));
    EXPECT_THAT(inside.of(PartitionId{0}).outgoing, IsEmpty());
    EXPECT_EQ(inside.of(PartitionId{0}).num_slots, 1u);
}

TEST(SkipLayout, GoesStraightPastThePartitionsBetween) {
    const SkipLayout far = layout({stashes({a()}), kPlain, pops({a()})}, {1, 1, 1});
    EXPECT_THAT(far.routes(), ElementsAre(route(0, 2)));
    EXPECT_THAT(far.of(PartitionId{0}).outgoing, ElementsAre(0));
    EXPECT_THAT(far.of(PartitionId{1}).incoming, IsEmpty());
    EXPECT_THAT(far.of(PartitionId{1}).outgoing, IsEmpty());
    EXPECT_THAT(far.of(PartitionId{2}).incoming, ElementsAre(0));
}

TEST(SkipLayout, OrdersWhatComesFromSeveralPartitions) {
    const SkipLayout two = layout({stashes({b()}), stashes({a()}), pops({a(), b()})}, {1, 1, 1});
    EXPECT_THAT(two.routes(), ElementsAre(route(0, 2), route(1, 2)));
    EXPECT_THAT(two.of(PartitionId{2}).incoming, ElementsAre(0, 1));
    EXPECT_EQ(two.place_in(1, PartitionId{2}), 1u);
    EXPECT_EQ(two.place_out(1), 0u);
}

TEST(SkipLayout, HasARouteForEachLaneThatPopsASkip) {
    const SkipLayout three =
        layout({stashes({a()}), pops({a()}), pops({a()}), pops({a()}), kPlain, pops({a()})}, {2, 2, 2});
    EXPECT_THAT(three.routes(), ElementsAre(route(0, 0), route(0, 1), route(0, 2)));
    EXPECT_THAT(three.of(PartitionId{0}).outgoing, ElementsAre(1, 2));
    EXPECT_THAT(three.of(PartitionId{0}).outgoing_slots, ElementsAre(0, 0)) << "one skip";
    EXPECT_THAT(three.of(PartitionId{1}).incoming, ElementsAre(1));
    EXPECT_THAT(three.of(PartitionId{1}).is_popped_later, ElementsAre(1));
    EXPECT_THAT(three.of(PartitionId{2}).is_popped_later, ElementsAre(0));
    EXPECT_FALSE(three.of(PartitionId{0}).layers[1].pop[0].is_last) << "it leaves";
    EXPECT_FALSE(three.of(PartitionId{1}).layers[0].pop[0].is_last) << "the next layer pops it too";
    EXPECT_TRUE(three.of(PartitionId{1}).layers[1].pop[0].is_last);
}

TEST(SkipLayout, HandsASkipOnAmongThePartitionsOfALane) {
    const std::vector<LaneId> v = {LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}};
    const SkipLayout there = layout({stashes({a()}), pops({a()}), pops({a()}), pops({a()})}, {1, 1, 1, 1}, v);
    EXPECT_THAT(there.routes(), ElementsAre(SkipRoute{PartitionId{0}, {PartitionId{1}, PartitionId{2}}}, route(0, 3)));
    EXPECT_EQ(there.first_behind(0), PartitionId{1});
    EXPECT_EQ(there.next_behind(0, PartitionId{1}), PartitionId{2});
    EXPECT_FALSE(there.next_behind(0, PartitionId{2}));
    EXPECT_THAT(there.of(PartitionId{2}).incoming, ElementsAre(0));
    EXPECT_THAT(there.of(PartitionId{1}).is_popped_later, ElementsAre(1));
    const SkipLayout own = layout({stashes({a()}), pops({a()}), kPlain, kPlain, pops({a()})}, {2, 1, 1, 1}, v);
    EXPECT_THAT(own.routes(), ElementsAre(SkipRoute{PartitionId{0}, {PartitionId{0}, PartitionId{3}}}));
    EXPECT_EQ(own.first_behind(0), PartitionId{3});
}

// torchgpipe sorts names of the default namespace together with those of others. Python cannot compare these, so its
// constructor raises.
TEST(SkipLayout, MixesSpacesAlwaysInTheSameOrder) {
    const SkipLayout mixed = layout(
        {stashes({a("y")}), stashes({a()}), stashes({a("x")}), pops({a()}), pops({a("x")}), pops({a("y")})}, {3, 3});
    std::vector<std::string> names;
    for (const Skip& skip : mixed.skips()) {
        names.push_back(to_string(skip.name));
    }
    EXPECT_THAT(names, ElementsAre("y/a", "a", "x/a"));
}
}  // namespace
}  // namespace pipescope
