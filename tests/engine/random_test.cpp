#include "engine/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <thread>

namespace pipescope {
namespace {
at::Tensor draw(std::uint64_t seed) {
    const SeededRandom random(seed);
    // in-place, factory, permutation, and a composite operator that draws inside
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

TEST(SeededRandom, ReplacesTheDefaultGeneratorAlsoWhereItIsNamed) {
    const auto draw = [] {
        const SeededRandom random(7);
        return torch::empty({4}).bernoulli_(0.5, at::detail::getDefaultCPUGenerator()) +
               torch::rand({4}, at::detail::getDefaultCPUGenerator());
    };
    EXPECT_TRUE(torch::equal(draw(), draw()));
    torch::manual_seed(1);
    const at::Tensor outside = torch::rand({4}, at::detail::getDefaultCPUGenerator());
    torch::manual_seed(1);
    draw();
    EXPECT_TRUE(torch::equal(torch::rand({4}), outside));
}

TEST(SeededRandom, KeepsGradients) {
    const SeededRandom random(1);
    const at::Tensor x = torch::ones({64}).requires_grad_();
    const at::Tensor y = torch::dropout(x, 0.5, true);
    y.sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), y.detach()));
}

TEST(SeededRandom, SavesAndRestoresItsStateThroughTheDefaultGenerator) {
    torch::manual_seed(5);
    const at::Tensor outside = at::detail::getDefaultCPUGenerator().get_state();
    {
        const SeededRandom random(1);
        at::Generator generator = at::detail::getDefaultCPUGenerator();
        torch::rand({3});
        const at::Tensor state = generator.get_state();
        const at::Tensor first = torch::rand({8});
        generator.set_state(state);
        EXPECT_TRUE(torch::equal(torch::rand({8}), first));
        torch::manual_seed(11);
        const at::Tensor seeded = torch::rand({8});
        torch::manual_seed(11);
        EXPECT_TRUE(torch::equal(torch::rand({8}), seeded));
        EXPECT_EQ(generator.current_seed(), 11u);
    }
    EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), outside));
}

TEST(SeededRandom, GoesOnWhereItWasBehindAnInnerOne) {
    const auto drawn = [](bool with_inner) {
        const SeededRandom random(1);
        const at::Tensor first = torch::rand({4});
        if (with_inner) {
            draw(2);
        }
        return torch::cat({first, torch::rand({4})});
    };
    EXPECT_TRUE(torch::equal(drawn(true), drawn(false)));
}

TEST(SeededRandom, IsNotInheritedByThreadsThatInheritTheKey) {
    const SeededRandom random(1);
    const at::ThreadLocalState state;
    at::Tensor first, second;
    std::thread thread([&] {
        const at::ThreadLocalStateGuard guard(state);
        first = torch::rand({8});
    });
    thread.join();
    std::thread other([&] {
        const at::ThreadLocalStateGuard guard(state);
        second = torch::rand({8});
    });
    other.join();
    EXPECT_FALSE(torch::equal(first, second)) << "as torch has it: from the process's generator";
}

TEST(RandomSeed, DiffersInEveryCoordinate) {
    std::set<std::uint64_t> seeds;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        for (int step = 0; step < 5; ++step) {
            for (int i = 0; i < 5; ++i) {
                for (int layer = 0; layer < 5; ++layer) {
                    seeds.insert(random_seed(seed, step, MicroBatchId{i}, LayerId{layer}));
                    seeds.insert(backward_seed(seed, step, Cell{MicroBatchId{i}, PartitionId{layer}}));
                }
            }
        }
    }
    EXPECT_EQ(seeds.size(), 2 * 625u);
}
}  // namespace
}  // namespace pipescope
