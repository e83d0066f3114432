#include "analysis/kernel_sums.h"

#include "tests/temporary_folder.h"
#include "tests/trace/rank_files.h"
#include "trace/merge/merge_rank_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
/// A step whose forward launches three kernels of gemm and one copy, and whose backward launches one kernel.
RankFile file_with_kernels(double longer = 0) {
    RankFile file(0, 1);
    file.range("PP:0F0", 0, 5)
        .launched(1, 10, 20)
        .launched(2, 20, 40)
        .launched(3, 40, 70 + longer)
        .launched(4, 80, 81, "Memcpy HtoD (Pinned -> Device)", 9)
        .range("PP:0B0", 6, 8)
        .launched(7, 100, 140, "gemm_back")
        .range("other", 200, 202)
        .launched(201, 210, 220);
    return file;
}

const KernelSum* find(const std::vector<KernelSum>& sums, const std::string& name) {
    const auto found = std::ranges::find(sums, name, &KernelSum::name);
    return found == sums.end() ? nullptr : &*found;
}

void expect_sums(const KernelSums& sums) {
    ASSERT_EQ(sums.by_name.size(), 3U);
    const KernelSum& gemm = sums.by_name.at(0);
    EXPECT_EQ(gemm.name, "gemm");
    EXPECT_EQ(gemm.activity, "kernel");
    EXPECT_EQ(gemm.count, 4);
    EXPECT_EQ(gemm.total, 70'000);
    EXPECT_DOUBLE_EQ(gemm.mean, 17'500);
    EXPECT_EQ(gemm.median, 15'000) << "between 10 and 20 us";
    EXPECT_EQ(gemm.p95, 30'000);
    EXPECT_NEAR(gemm.share, 70.0 / 111, 1e-9);
    EXPECT_EQ(sums.by_name.at(2).activity, "memcpy");
    const KernelSum* const forward = find(sums.by_task, "gemm");
    ASSERT_NE(forward, nullptr);
    EXPECT_EQ(forward->task, TaskKind::forward);
    EXPECT_EQ(forward->partition, 0);
    EXPECT_EQ(forward->count, 3) << "the fourth belongs to no task";
    ASSERT_EQ(sums.by_stream.size(), 2U);
    EXPECT_EQ(sums.by_stream.at(0).count, 5);
    EXPECT_TRUE(sums.by_stream.at(0).stream.ends_with("stream 7")) << sums.by_stream.at(0).stream;
}

TEST(KernelSums, AreTheSameInAFileAndInItsImport) {
    const TemporaryFolder folder;
    const std::filesystem::path file = file_with_kernels().write(folder / "rank0.json");
    expect_sums(kernel_sums(file));
    merge_rank_files({file}, folder / "t.sqlite", IfExists::refuse, TaskRules());
    expect_sums(kernel_sums(folder / "t.sqlite"));
}

/// A file of a rank with a kernel, a copy and two all-reduces of 1000 bfloat16 with the other rank.
std::filesystem::path file_with_facts(int rank, const std::filesystem::path& path, double late) {
    const std::string reduce =
        R"("Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1000, "Out msg nelems": 1000, )"
        R"("Group size": 2, "Process Group Ranks": [0, 1], "Process Group Name": "0")";
    RankFile file(rank, 2);
    file.range("PP:" + std::to_string(rank) + "F0", 0, 5);
    const auto work = [&](const char* category, const char* name, double start, double end, const std::string& facts) {
        file.work(category, name, start, end, facts);
    };
    work("kernel", "gemm", 10, 20,
         R"("grid": [128, 2, 1], "block": [256, 1, 1], "registers per thread": 40, )"
         R"("shared memory": 1024)");
    work("kernel", "gemm", 30, 50, R"("grid": [64, 1, 1], "block": [32, 4, 1], "registers per thread": 48)");
    work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 60, 70, R"("bytes": 4000)");
    work("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100 + late, 130, reduce);
    work("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 200, 220, reduce);
    return file.write(path);
}

TEST(KernelSums, KeepWhatIsKnownAboutKernelsCopiesAndMessages) {
    const TemporaryFolder folder;
    const auto expect = [](const KernelSums& sums, std::int64_t ranks) {
        const KernelSum* const gemm = find(sums.by_name, "gemm");
        ASSERT_NE(gemm, nullptr);
        EXPECT_EQ(gemm->launch, (KernelLaunch{{64, 1, 1}, {32, 4, 1}, 48, 0, 2})) << "it takes most of the time";
        EXPECT_EQ(gemm->bytes, std::nullopt);
        const auto copy = std::ranges::find(sums.by_name, "memcpy", &KernelSum::activity);
        ASSERT_NE(copy, sums.by_name.end());
        EXPECT_EQ(copy->bytes, ranks * 4000);
        EXPECT_DOUBLE_EQ(copy->bandwidth.value(), 4e8);
        ASSERT_EQ(sums.collectives.size(), 1U);
        const CollectiveSum& reduce = sums.collectives.at(0);
        EXPECT_EQ(reduce.type, "all_reduce");
        EXPECT_EQ(reduce.element_type, "BFloat16");
        EXPECT_EQ(reduce.bytes, 2000);
        EXPECT_EQ(reduce.group_size, 2);
        EXPECT_EQ(reduce.count, 2 * ranks);
    };
    const std::vector<std::filesystem::path> files = {file_with_facts(0, folder / "rank0.json", 0),
                                                      file_with_facts(1, folder / "rank1.json", 10)};
    const KernelSums alone = kernel_sums(files[0]);
    expect(alone, 1);
    EXPECT_EQ(alone.collectives.at(0).skew, std::nullopt) << "the other rank's kernels are not there";
    EXPECT_DOUBLE_EQ(alone.collectives.at(0).best_bandwidth.value(), 1e8);
    merge_rank_files(files, folder / "t.sqlite", IfExists::refuse, TaskRules());
    const KernelSums both = kernel_sums(folder / "t.sqlite");
    expect(both, 2);
    EXPECT_EQ(both.collectives.at(0).total, 90'000);
    EXPECT_EQ(both.collectives.at(0).skew, 10'000) << "rank 1 is late once";
    EXPECT_THAT(both.collectives.at(0).late_device, testing::HasSubstr("rank 1"));
    EXPECT_EQ(both.collectives.at(0).late_skew, 10'000);
    EXPECT_EQ(both.collectives.at(0).transfer, 80'000);
    EXPECT_DOUBLE_EQ(both.collectives.at(0).bus_bandwidth.value(), 1e8) << "2 (n - 1) / n is 1";
}

TEST(KernelSums, WithholdTheSkewOfKernelsThatDoNotOverlap) {
    KernelSumming summing;
    const WorkFacts facts{{}, {}, 0, 0, 2000, {"all_reduce", "BFloat16", "[0, 1]", 2}};
    summing.add({"nccl", "kernel", "GPU 0", "GPU 0, stream 7", Nanoseconds{0}, Nanoseconds{10}, {}, -1, &facts});
    summing.add({"nccl", "kernel", "GPU 1", "GPU 1, stream 7", Nanoseconds{20}, Nanoseconds{30}, {}, -1, &facts});
    EXPECT_EQ(summing.sums().collectives.at(0).skew, std::nullopt) << "the clocks are wrong";
}

TEST(KernelSums, TakeTheDeviceOfACollectiveWhateverItsStreamIsCalled) {
    KernelSumming summing;
    const WorkFacts facts{{}, {}, 0, 0, 2000, {"all_reduce", "BFloat16", "[0, 1]", 2}};
    summing.add({"nccl", "kernel", "GPU 0", "GPU 0, comm", Nanoseconds{0}, Nanoseconds{30}, {}, -1, &facts});
    summing.add({"nccl", "kernel", "GPU 1", "GPU 1, a, stream 2", Nanoseconds{20}, Nanoseconds{30}, {}, -1, &facts});
    const KernelSums sums = summing.sums();
    EXPECT_EQ(sums.collectives.at(0).skew, 20);
    EXPECT_EQ(sums.collectives.at(0).late_device, "GPU 1");
}

TEST(KernelSums, EndAtTheLargestNumberOfBytes) {
    KernelSumming summing;
    WorkFacts facts;
    facts.bytes = INT64_MAX / 2 + 1;
    for (int k = 0; k < 3; ++k) {
        summing.add({"copy", "memcpy", "GPU 0", "GPU 0, stream 7", Nanoseconds{0}, Nanoseconds{1}, {}, -1, &facts});
    }
    EXPECT_EQ(summing.sums().by_name.at(0).bytes, INT64_MAX);
}

TEST(KernelSums, OfTwoRunsAreJoinedByName) {
    const TemporaryFolder folder;
    const KernelSums before = kernel_sums(file_with_kernels().write(folder / "a.json"));
    const KernelSums after = kernel_sums(file_with_kernels(5).write(folder / "b.json"));
    const std::vector<ComparedKernels> compared = compare_kernels(before, after);
    ASSERT_EQ(compared.size(), 3U);
    EXPECT_EQ(compared[0].after.name, "gemm");
    EXPECT_EQ(compared[0].after.total - compared[0].before.total, 5'000);
    EXPECT_EQ(compare_kernels(before, {}).at(0).after.count, 0);
}
}  // namespace
}  // namespace pipescope
