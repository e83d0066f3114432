#include "analysis/kernel_sums.h"

#include "tests/temporary_folder.h"
#include "tests/trace/rank_files.h"
#include "trace/merge/merge_rank_files.h"

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
