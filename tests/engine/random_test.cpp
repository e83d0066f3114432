#include "engine/random.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <thread>

namespace pipescope {
namespace {
at::Tensor draw(std::uint64_t seed) {
    const SeededRandom random(seed);
    // in-place, factory, permutation and a composite that draws inside
    return torch::cat({torch::empty({4}).normal_(), torch::rand({4}), torch::randperm(4).to(torch::kFloat32),
                       torch::dropout(torch::ones({16}), 0.5, true)});
}

TEST(SeededRandom, DrawsTheSameNumbersForTheSameSeed) {
    EXPECT_TRUE(torch::equal(draw(1), draw(1)));
    EXPECT_FALSE(torch::equal(draw(1), draw(2)));
}

TEST(SeededRandom, DrawsTheSameNumbersOnEveryThread) {
    at::Tensor there;
    std::thread thread([&] { there = draw(3); });
    const at::Tensor here = draw(3);
    thread.join();
    EXPECT_TRUE(torch::equal(here, there));
}

TEST(SeededRandom, LeavesTheDefaultGeneratorAlone) {
    torch::manual_seed(5);
    const at::Tensor expected = torch::rand({8});
    torch::manual_seed(5);
    draw(1);
    EXPECT_TRUE(torch::equal(torch::rand({8}), expected));
}

TEST(SeededRandom, HonoursAGeneratorThatIsNamed) {
    const auto drawn = [](std::uint64_t seed) {
        at::Generator own = at::detail::createCPUGenerator(11);
        const SeededRandom random(seed);
        return torch::empty({8}).normal_(0, 1, own);
    };
    EXPECT_TRUE(torch::equal(drawn(1), drawn(2)));
}

TEST(SeededRandom, KeepsGradients) {
    const SeededRandom random(1);
    const at::Tensor x = torch::ones({64}).requires_grad_();
    const at::Tensor y = torch::dropout(x, 0.5, true);
    y.sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), y.detach()));
}

TEST(RandomSeed, DiffersInEveryCoordinate) {
    std::set<std::uint64_t> seeds;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        for (int step = 0; step < 5; ++step) {
            for (int i = 0; i < 5; ++i) {
                for (int layer = 0; layer < 5; ++layer) {
                    seeds.insert(random_seed(seed, step, MicroBatchId{i}, LayerId{layer}));
                }
            }
        }
    }
    EXPECT_EQ(seeds.size(), 625u);
}
}  // namespace
}  // namespace pipescope
