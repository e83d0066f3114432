#include "profiler/memory/tracking_allocator.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
using namespace tracking_allocator;

// Sets this thread's owner during its lifetime.
class Owning {
public:
    explicit Owning(int owner) : before_(set_owner(owner)) {}
    ~Owning() { set_owner(before_); }
    Owning(const Owning&) = delete;
    Owning& operator=(const Owning&) = delete;

private:
    int before_;
};

class TrackingAllocatorTest : public testing::Test {
protected:
    static void SetUpTestSuite() { install(); }
    void SetUp() override {
        for (const int owner : {1, 2, 3}) {
            ASSERT_EQ(allocated(owner), 0) << "the test before leaked";
            reset_peak(owner);
            account(owner).take_window();
        }
    }
};

TEST_F(TrackingAllocatorTest, ChargesTheOwnerOfTheAllocatingThread) {
    const Owning lane(1);
    const at::Tensor tensor = torch::empty({25});
    EXPECT_TRUE(installed());
    EXPECT_EQ(allocated(1), 100);
    EXPECT_EQ(allocated(2), 0);
}

TEST_F(TrackingAllocatorTest, CreditsTheOwnerWhereverTheMemoryIsFreed) {
    at::Tensor tensor;
    std::thread([&] {
        const Owning lane(1);
        tensor = torch::empty({25});
    }).join();
    EXPECT_EQ(allocated(1), 100);
    const Owning lane(2);
    tensor = at::Tensor();
    EXPECT_EQ(allocated(1), 0);
    EXPECT_EQ(allocated(2), 0);
}

TEST_F(TrackingAllocatorTest, KeepsThePeakOfWhatWasFreedAgain) {
    const Owning lane(1);
    {
        const at::Tensor one = torch::empty({25});
        const at::Tensor two = torch::empty({50});
    }
    EXPECT_EQ(allocated(1), 0);
    EXPECT_EQ(peak(1), 300);
    reset_peak(1);
    EXPECT_EQ(peak(1), 0);
}

TEST_F(TrackingAllocatorTest, WindowsOverlapNeitherEachOtherNorThePeak) {
    const Owning lane(1);
    const at::Tensor held = torch::empty({10});
    torch::empty({25});
    EXPECT_EQ(account(1).take_window(), 140);
    EXPECT_EQ(account(1).take_window(), 40);  // held all through the second window
    torch::empty({50});
    EXPECT_EQ(account(1).take_window(), 240);
    EXPECT_EQ(peak(1), 240);
}

TEST_F(TrackingAllocatorTest, MovesTheChargeOfAStorageOnce) {
    const Owning lane(1);
    at::Tensor tensor = torch::empty({5, 5});
    const at::Tensor view = tensor[0];
    recharge(view, 2, MemoryCategory::saved);
    recharge(tensor, 2, MemoryCategory::saved);
    EXPECT_EQ(allocated(1), 0);
    EXPECT_EQ(allocated(2), 100);
    EXPECT_EQ(peak(2), 100);
}

TEST_F(TrackingAllocatorTest, LeavesStoragesItDidNotMakeAlone) {
    std::vector<float> foreign(100);
    recharge(torch::from_blob(foreign.data(), {100}), 1, MemoryCategory::saved);
    recharge(torch::from_blob(foreign.data(), {100}, [](void*) {}), 1, MemoryCategory::saved);
    recharge(torch::empty({0}), 1, MemoryCategory::saved);
    recharge(at::Tensor(), 1, MemoryCategory::saved);
    recharge(torch::empty({3}, torch::kMeta), 1, MemoryCategory::saved);
    EXPECT_EQ(allocated(1), 0);
}

TEST_F(TrackingAllocatorTest, KeepsTheAlignmentThatKernelsExpect) {
    for (const std::int64_t elements : {1, 3, 17, 1000, 100000}) {
        const at::Tensor tensor = torch::empty({elements});
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U);
    }
}

// gelu takes scratch memory through raw_allocate, which requires data and context to be one pointer.
TEST_F(TrackingAllocatorTest, ServesCallersThatAllocateWithoutADataPtr) {
    const Owning lane(1);
    const at::Tensor input = torch::randn({64, 64}, torch::requires_grad());
    torch::gelu(input).sum().backward();
    EXPECT_TRUE(input.grad().defined());
    c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::CPU);
    void* raw = allocator->raw_allocate(128);
    const Bytes with_raw = allocated(1);
    allocator->raw_deallocate(raw);
    EXPECT_EQ(with_raw - allocated(1), 128);
}

TEST_F(TrackingAllocatorTest, CountsRightWhenManyThreadsShareAnOwner) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 2000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([] {
            const Owning lane(3);
            for (int round = 0; round < kRounds; ++round) {
                const at::Tensor tensor = torch::empty({25});
                recharge(tensor, round % 2 == 0 ? 2 : 3, MemoryCategory::saved);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(allocated(2), 0);
    EXPECT_EQ(allocated(3), 0);
    EXPECT_GE(peak(3), 100);
    EXPECT_LE(peak(3), kThreads * 100);
}

// The owner holds either 400 or 0 bytes, while its peak is read and restarted continuously. Each rise must appear in a
// window.
TEST_F(TrackingAllocatorTest, LosesNoPeakBetweenTwoWindows) {
    constexpr int kRounds = 3000;
    std::atomic<bool> done{false};
    Bytes highest = 0;
    std::thread reader([&] {
        while (!done) {
            highest = std::max(highest, account(1).take_window());
        }
        highest = std::max(highest, account(1).take_window());
    });
    {
        const Owning lane(1);
        for (int round = 0; round < kRounds; ++round) {
            torch::empty({100});
        }
        const at::Tensor tallest = torch::empty({1000});
    }
    done = true;
    reader.join();
    EXPECT_EQ(highest, 4000);
}

// A pass of a model holds several tensors and then frees them all. By default, malloc would return their pages to the
// system and fault in thousands of them in the next pass or the one after.
TEST_F(TrackingAllocatorTest, KeepsFreedMemorySoThatPagesAreNotFaultedInAgain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer has a malloc of its own";
#endif
    std::thread([] {
        const auto faults_of_a_pass = [] {
            rusage before{};
            getrusage(RUSAGE_THREAD, &before);
            std::vector<at::Tensor> activations;
            for (int layer = 0; layer < 3; ++layer) {
                activations.push_back(torch::ones({5 << 20}));  // 20 MB
            }
            activations.clear();
            rusage after{};
            getrusage(RUSAGE_THREAD, &after);
            return after.ru_minflt - before.ru_minflt;
        };
        for (int pass = 0; pass < 4; ++pass) {
            faults_of_a_pass();  // grows the arena
        }
        std::int64_t faults = 0;
        for (int pass = 0; pass < 4; ++pass) {
            faults += faults_of_a_pass();
        }
        EXPECT_LT(faults, 1000);
    }).join();
}

TEST_F(TrackingAllocatorTest, RefusesAnOwnerThatCannotExist) {
    EXPECT_THROW(set_owner(-1), Error);
    EXPECT_THROW(recharge(torch::empty({1}), kNumOwners, MemoryCategory::saved), Error);
}
}  // namespace
}  // namespace pipescope
